"""Writes a study's report: `python -m analysis.report [results/main] [--calls N] [...]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import cli, numbers, pictures
from analysis.page import figures, parts, render
from analysis.page.study import LARGE, Study, period, places
from analysis.recommendation import ANYTHING, Wishes, recommend
from analysis.recommending import wishes
from analysis.rows import ordered
from bench.records import UsageError

_ROOT = Path(__file__).resolve().parents[1]
GUIDE = _ROOT / "docs" / "how-to-read-a-report.md"


def write(study: Path, wanted: Wishes = ANYTHING, where: str | None = None) -> Path:
    """Writes `<study>/report/`: index.html (self-contained), report.md and its figures.

    `wanted` decides what it recommends, and `where` which rows it is about (an expression of
    `filters.selection`; None: all).

    Returns the path of index.html. Raises UsageError where there is no study or no run in it, where
    `where` has no meaning or keeps no row, or where the report cannot be written.
    """
    rows, unread = cli.study(study)
    if where is not None:
        selection = cli.where(rows, where)
        rows = selection.rows
        if rows.empty:
            raise UsageError(f"{selection.count}, so no report of {study} is written")
    context = _context(study, rows, unread, wanted) | {"where": where}
    drawn = figures.drawn(context["parts"][parts.FIGURES][1])
    texts = {picture.file: picture.svg for picture in drawn}
    texts |= {page: render.render(page, context) for page in render.PAGES}
    folder = study / "report"
    try:
        _put(folder, texts)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {folder} ({error.strerror or error}); make it a "
            "folder that you may write to, with room on its disk, or copy the study to such a place"
        ) from None
    return folder / "index.html"


def _put(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes the files of a report, in place of an earlier one's."""
    folder.mkdir(exist_ok=True)
    for kind in pictures.KINDS:
        for old in folder.glob(f"{kind.name}-*.svg"):  # a figure may be gone since
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _context(
    study: Path, rows: pd.DataFrame, unread: dict[str, str], wanted: Wishes
) -> dict[str, Any]:
    """What the templates print."""
    answers = recommend(rows, wanted.calls, wanted.memory_limit_bytes)
    told = Study(study.resolve().name, _typed(study), ordered(rows), answers, unread)
    counts = rows["status"].value_counts()
    return {
        "study": told.name,
        "folder": told.folder,
        "places": places(told),
        "counts": ", ".join(f"{count:,} {status}" for status, count in counts.items()),
        "rows": len(rows),
        "large": LARGE,
        "cases": numbers.counted(len(rows), "case", "cases"),
        "unread": numbers.counted(len(unread), "file", "files") if unread else "",
        "period": period(rows),
        "guide": _guide(study),
        "parts": parts.found(told),
    }


def _typed(study: Path) -> str:
    """The study as a command line started here names it; no path of this machine is told."""
    path = os.path.relpath(study)
    return study.resolve().name if path.startswith("..") else path


def _guide(study: Path) -> str | None:
    """The guide as seen from the report, where both belong to one checkout."""
    report = study.resolve() / "report"
    inside = report.is_relative_to(_ROOT) and GUIDE.exists()
    return os.path.relpath(GUIDE, report) if inside else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; prints the report's path and returns the exit status."""
    parser = cli.parser("analysis.report", __doc__)
    cli.add_where(parser)
    wishes.add_options(parser)

    def body() -> None:
        asked = parser.read(arguments)
        print(write(asked.study, wishes.wishes(asked), asked.where))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
