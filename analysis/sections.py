"""What the pages of a report print, in words already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from analysis import flags, numbers, pictures, readings, style, verdicts, words
from analysis.columns import DETAILED, Column, apart, wanted
from analysis.details import details
from analysis.pictures import Picture
from analysis.rows import GROUP, SECTION, ordered, parts
from analysis.series import Series, by_slope, families, series
from analysis.surroundings import surroundings
from bench.stats import ALPHA, MARGIN

NAMING = (Column("mode", lambda row: row["mode"]), Column("dtype", lambda row: row["dtype"]))
MOST_SHAPES = 4  # of one work: of more, the single shapes are folded away and have no figures


def context(rows: pd.DataFrame, study: str) -> dict[str, Any]:
    """Everything that the templates print of the derived `rows`."""
    rows = ordered(rows)
    letter = rows["environment"].nunique() > 1
    counts = Counter(rows["status"])
    places = iter(range(1, len(rows) + 1))
    return {
        "study": study,
        "runs": f"{len(rows)} cases: {', '.join(f'{n} {s}' for s, n in counts.most_common())}",
        "period": (rows["started_at"].min(), rows["started_at"].max()),
        "families": [
            _family(family, f"{place}", places, letter)
            for place, family in enumerate(families(rows), start=1)
        ],
        "surroundings": surroundings(rows),
        "confidence": numbers.whole_percent(1 - ALPHA),
        "margin": f"±{numbers.whole_percent(MARGIN)}",
    }


def every_picture(pages: dict[str, Any]) -> Iterator[Picture]:
    """The figures of a `context`."""
    for family in pages["families"]:
        for part in (*family["series"], *family["sections"]):
            yield from part["pictures"]


def _family(frame: pd.DataFrame, place: str, places: Iterator[int], letter: bool) -> dict[str, Any]:
    """One work on one machine: what it does over its sizes, then each size."""
    shapes = list(parts(frame, SECTION))
    folded = len(shapes) > MOST_SHAPES
    first = words.as_rows(frame)[0]
    return {
        "folded": folded,
        "work": words.work_at(first, "{}"),
        "place": words.place(first, letter),
        "series": [
            _series(one, f"{place}-{n}", letter) for n, one in enumerate(series(frame), start=1)
        ],
        "sections": [_section(part, next(places), letter, not folded) for part in shapes],
    }


def _series(found: Series, name: str, letter: bool) -> dict[str, Any]:
    """How the modes of one work differ over one of its sizes."""
    row = found.lines[0].rows[0]
    drawn = list(pictures.of_series(found, name))
    return {
        "anchor": f"series-{name}",
        "work": words.work_at(row, found.others),
        "size": found.size,
        "place": words.place(row, letter),
        "pictures": drawn,
        "sentences": [picture.reading for picture in drawn if picture.reading],
        "titles": _titles(found),
        "rows": list(_summary(found)),
    }


def _titles(found: Series) -> list[str]:
    slope = [f"{found.overhead.name} per {found.unit} [95 %]"] if found.is_chain else []
    return ["mode", f"{found.size} measured", *slope, "bound by overhead"]


def _summary(found: Series) -> Iterator[list[str]]:
    """A line of the small table for each mode, of a chain the cheapest overhead first."""
    known = [line for line, _ in by_slope(found)] if found.is_chain else []
    others = [line for line in found.lines if line not in known]
    for line in (*known, *sorted(others, key=lambda line: style.order(line.rows[0]))):
        slope = [numbers.estimate(line.slope)] if found.is_chain else []
        sizes = f"{min(line.sizes)} to {max(line.sizes)}, {len(line.sizes)} rows"
        yield [line.name, sizes, *slope, readings.bound(line, found)]


def _section(frame: pd.DataFrame, number: int, letter: bool, drawn: bool) -> dict[str, Any]:
    """One work at one size on one machine: its verdicts, figures and table."""
    rows = words.as_rows(frame)
    columns, naming = wanted(DETAILED, rows), (*NAMING, *apart(rows))
    return {
        "anchor": f"section-{number}",
        "work": words.work(rows[0]),
        "place": words.place(rows[0], letter),
        "groups": [
            {"dtype": group["dtype"].iloc[0], "verdict": verdicts.verdict(group)}
            for group in parts(frame, GROUP)
        ],
        "controls": verdicts.controls(frame),
        "drawn": drawn,
        "pictures": list(pictures.of_section(frame, f"{number}")) if drawn else [],
        "columns": [*naming, *columns],
        "rows": [_line(row, naming, columns) for row in rows],
        "details": list(details(rows, naming)),
        "left_out": _left_out(rows),
        "flags": flags.meanings(flag for row in rows for flag in words.flags(row)),
    }


def _left_out(rows: Sequence[words.Row]) -> dict[str, list[str]]:
    """Reason -> the variants that are neither charted nor recommended for it."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if why := words.why_left_out(row):
            found.setdefault(why, []).append(words.variant(row))
    return found


def _line(row: words.Row, naming: Iterable[Column], columns: Iterable[Column]) -> dict[str, Any]:
    ok = row["status"] == "ok"
    return {
        "names": [column.cell(row) for column in naming],
        "cells": [column.cell(row) for column in columns] if ok else [],
        "reason": None if ok else words.why_left_out(row),
        "counts": words.why_left_out(row) is None,
        "variant": words.variant(row),
        "command": row["command"],
        "run_id": row["run_id"],
        "trace": row["trace"],
        "snapshot": row["snapshot"],
    }
