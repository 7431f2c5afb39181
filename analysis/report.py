"""Writes a study's report: `python -m analysis.report [results/main]`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from analysis import cli, plots, verdicts, words
from analysis.columns import DETAILED, Column, wanted
from analysis.rows import GROUP, SECTION, ordered, parts
from analysis.surroundings import surroundings
from bench.stats import ALPHA, MARGIN

NAMING = (Column("mode", lambda row: row["mode"]), Column("dtype", lambda row: row["dtype"]))


def write(study: Path) -> Path:
    """Writes `<study>/report/`: index.html (self-contained), report.md and its figures.

    Returns the path of index.html. Raises UsageError where there is no study or no run in it.
    """
    rows = cli.study(study)
    folder = study / "report"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("speedup-*.svg"):  # a section may be gone since
        old.unlink()
    context = _context(rows, study.resolve().name)
    for section in context["sections"]:
        if section["figure"] is not None:
            (folder / section["file"]).write_text(section["figure"], encoding="utf-8")
    for page, engine in _engines().items():
        text = engine.get_template(f"{page}.j2").render(context)
        (folder / page).write_text(text, encoding="utf-8")
    return folder / "index.html"


def _context(rows: pd.DataFrame, study: str) -> dict[str, Any]:
    """Everything the templates print, in words already."""
    rows = ordered(rows)
    letter = rows["environment"].nunique() > 1
    counts = Counter(rows["status"])
    return {
        "study": study,
        "runs": f"{len(rows)} cases: {', '.join(f'{n} {s}' for s, n in counts.most_common())}",
        "period": (rows["started_at"].min(), rows["started_at"].max()),
        "sections": [
            _section(part, number, letter)
            for number, part in enumerate(parts(rows, SECTION), start=1)
        ],
        "surroundings": surroundings(rows),
        "confidence": f"{1 - ALPHA:.0%}".replace("%", " %"),
        "margin": f"±{MARGIN:.0%}".replace("%", " %"),
    }


def _section(frame: pd.DataFrame, number: int, letter: bool) -> dict[str, Any]:
    """One work on one machine: its verdicts, figure and table."""
    rows = words.as_rows(frame)
    columns = wanted(DETAILED, rows)
    figure = plots.forest(frame)
    return {
        "anchor": f"section-{number}",
        "work": words.work(rows[0]),
        "place": words.place(rows[0], letter),
        "groups": [
            {"dtype": group["dtype"].iloc[0], "verdict": verdicts.verdict(group)}
            for group in parts(frame, GROUP)
        ],
        "controls": verdicts.controls(frame),
        "figure": None if figure is None else plots.svg(figure, inline=False),
        "inline": None if figure is None else Markup(plots.svg(figure, inline=True)),
        "file": f"speedup-{number}.svg",
        "reading": verdicts.reading(frame),
        "columns": [*NAMING, *columns],
        "rows": [_line(row, columns) for row in rows],
        "left_out": _left_out(rows),
    }


def _left_out(rows: Sequence[words.Row]) -> dict[str, list[str]]:
    """Reason -> the variants that are neither charted nor recommended for it."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if why := words.why_left_out(row):
            found.setdefault(why, []).append(words.variant(row))
    return found


def _line(row: words.Row, columns: Sequence[Column]) -> dict[str, Any]:
    ok = row["status"] == "ok"
    return {
        "names": [column.cell(row) for column in NAMING],
        "cells": [column.cell(row) for column in columns] if ok else [],
        "reason": None if ok else words.why_left_out(row),
        "counts": words.why_left_out(row) is None,
        "variant": words.variant(row),
        "command": row["command"],
        "run_id": row["run_id"],
    }


def _engines() -> dict[str, jinja2.Environment]:
    """Page -> its template engine, which escapes everything that is printed."""
    common: dict[str, Any] = {
        "loader": jinja2.PackageLoader("analysis"),
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }
    html = jinja2.Environment(autoescape=True, **common)
    markdown = jinja2.Environment(autoescape=False, finalize=_markdown, **common)
    markdown.filters["code"] = lambda text: Markup(" ".join(str(text).split()))
    return {"index.html": html, "report.md": markdown}


def _markdown(value: Any) -> Any:
    """Text that Markdown shows as it is; an indented code block (`code`) needs nothing."""
    if isinstance(value, Markup):
        return value
    line = " ".join(str(value).split())
    return re.sub(r"([|`*\\])", r"\\\1", str(escape(line)).replace("&#34;", '"'))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; prints the report's path and returns the exit status."""
    asked = cli.parser("analysis.report", __doc__).parse_args(arguments)
    return cli.exit_status(lambda: print(write(asked.study)))


if __name__ == "__main__":
    sys.exit(main())
