"""Writes a study's report: `python -m analysis.report [results/main] [--calls N] [...]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modescope.analysis import cli, nodes, where
from modescope.analysis.causes import finding
from modescope.analysis.derive.registry import derive
from modescope.analysis.derive.select import latest, ordered
from modescope.analysis.figures.registry import OF_GRIDS, OF_SECTION, OF_SERIES
from modescope.analysis.format import numbers
from modescope.analysis.load import Folder, RemotePath, read
from modescope.analysis.recommend import constraints
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report import figures, render
from modescope.analysis.report.environment import environments, period, places
from modescope.analysis.report.first_screen import which
from modescope.analysis.report.listing import listing, runs
from modescope.analysis.report.named_rows import diagnostics, left_out
from modescope.analysis.report.study import LARGE, Study
from modescope.analysis.report.terms import terms
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import ROOT

RESULTS = Path("results")  # run.py's default folder of studies
GUIDE = ROOT / "docs" / "how-to-read-a-report.md"
PARTS = {
    "which": "Which mode?",
    "rows": "All rows",
    "figures": "Figures",
    "diagnostics": "Flags and remedies",
    "left-out": "Left out",
    "environment": "Environment",
    "runs": "Commands and raw data",
    "terms": "How to read this",
}
"""Title of each part by its anchor, which is also the name of its template for either page."""
OPEN = ("which", "rows", "figures")  # the other parts of the HTML page are folded
_DRAWN = tuple(kind.name for kind in (*OF_SECTION, *OF_GRIDS, *OF_SERIES))


def write(study: Folder, wanted: Wishes = ANYTHING, condition: str | None = None) -> Path:
    """Writes `<study>/report/`: index.html (self-contained), report.md and its figures.

    The report of a remote study, such as s3://bucket/main, is written to results/s3-main/report/.

    `wanted` limits what it recommends. `condition` selects its rows (`analysis.where`; None: all).

    Returns the path of index.html. Raises UsageError if the study is missing or has no run, if
    `condition` is invalid or keeps no row, or if the report cannot be written.
    """
    runs = read(study)
    processes = latest(runs.table)
    rows = every = derive(processes)
    causes = finding.of_table(every)  # of the whole study, which rows are compared with
    if condition is not None:
        rows = where.select(every, condition)
        if rows.empty:
            none = where.count(rows, len(every), condition)
            raise UsageError(f"{none}, so no report of {study} is written")
    answers = recommend(rows, wanted.calls, wanted.memory_limit_bytes)
    shown = Study(
        name=study.resolve().name,
        folder=_typed(study),
        rows=ordered(rows),
        answers=answers,
        unread=runs.left_out,
        causes=causes,
        traces=study / "traces" if isinstance(study, Path) else None,
    )
    context = _context(study, shown) | {
        "where": condition,
        "nodes": nodes.names(processes),
        "warnings": nodes.sentences(processes),
    }
    drawn = (picture for chapter in context["chapters"] for picture in chapter.pictures)
    texts = {picture.file: picture.svg for picture in drawn}
    texts |= {page: render.render(page, context) for page in render.PAGES}
    folder = _folder(study)
    try:
        _put(folder, texts)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {folder} ({error.strerror or error}); it must be a "
            "folder that you may write to, on a disk with free space; fix that, or copy the study "
            "to such a place"
        ) from None
    return folder / "index.html"


def _put(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes the files of a report and removes the figures of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in _DRAWN:
        for old in folder.glob(f"{kind}-*.svg"):  # it may no longer be part of the report
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _context(study: Folder, shown: Study) -> dict[str, Any]:
    """The variables of the templates."""
    rows, unread = shown.rows, shown.unread
    counts = rows["status"].value_counts()
    chapters = figures.chapters(shown)
    answers = which(shown, chapters)
    contents = {
        "which": answers,
        "rows": listing(shown),
        "figures": [one for each in chapters if (one := each.without(answers["shown"]))],
        "diagnostics": diagnostics(shown),
        "left-out": left_out(shown),
        "environment": environments(rows),
        "runs": runs(shown),
        "terms": terms(shown),
    }
    return {
        "study": shown.name,
        "folder": shown.folder,
        "places": places(shown),
        "counts": ", ".join(f"{count:,} {status}" for status, count in counts.items()),
        "rows": len(rows),
        "large": LARGE,
        "cases": numbers.counted(len(rows), "case", "cases"),
        "unread": numbers.counted(len(unread), "file", "files") if unread else "",
        "period": period(rows),
        "guide": _guide(study),
        "chapters": chapters,
        "parts": [(n, title, contents[n]) for n, title in PARTS.items() if contents[n]],
        "open": OPEN,
    }


def _folder(study: Folder) -> Path:
    """Where the report is written."""
    if isinstance(study, RemotePath):
        return RESULTS / f"{study.scheme}-{study.name}" / "report"
    return study / "report"


def _typed(study: Folder) -> str:
    """The study as an argument of a command started here, without paths outside this folder."""
    if isinstance(study, RemotePath):
        return str(study)
    path = os.path.relpath(study)
    return study.resolve().name if path.startswith("..") else path


def _guide(study: Folder) -> str | None:
    """The path from the report to the guide; None unless both are in this checkout."""
    report = _folder(study).resolve()
    inside = report.is_relative_to(ROOT) and GUIDE.exists()
    return os.path.relpath(GUIDE, report) if inside else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; prints the report's path and returns the exit status."""
    parser = cli.parser("analysis.report", __doc__)
    where.add_option(parser)
    constraints.add_options(parser)

    def body() -> None:
        options = parser.read(arguments)
        print(write(options.study, constraints.wishes(options), options.where))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
