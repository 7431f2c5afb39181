"""Writes a study's report: pages and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modescope.analysis import nodes, where
from modescope.analysis.causes import finding
from modescope.analysis.derive.select import ordered
from modescope.analysis.figures.registry import OF_GRIDS, OF_SECTION, OF_SERIES
from modescope.analysis.folders import Folder, RemotePath
from modescope.analysis.format import numbers
from modescope.analysis.load import read
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report import render, rounds
from modescope.analysis.report.chapters import Chapter, chapters
from modescope.analysis.report.environment import environments, period, places, title
from modescope.analysis.report.first_screen import answer_cards
from modescope.analysis.report.listing import flagged, left_out, listing, runs
from modescope.analysis.report.study import Study
from modescope.analysis.snapshot import Snapshot
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import ROOT

RESULTS = Path("results")  # modescope run's default folder of studies
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
"""The title of each part by its anchor, which is also the name of its template for both pages."""
OPEN = ("which", "rows", "figures")  # the other parts of the HTML page are folded
_DRAWN = tuple(kind.name for kind in (*OF_SECTION, *OF_GRIDS, *OF_SERIES))


def write(
    study: Folder,
    wanted: Wishes = ANYTHING,
    condition: str | None = None,
    snapshot: Snapshot | None = None,
) -> Path:
    """Writes `<study>/report/`: index.html (self-contained), report.md and its figures.

    The report of a remote study, such as s3://bucket/main, is written to results/s3-main/report/.

    `wanted` constrains the recommendations. `condition` selects rows (`analysis.where`; None: all).
    `snapshot` is the study as it was read before; None: it is read here.

    Returns the path of index.html. Raises UsageError if the study is missing or has no run, if
    `condition` is invalid or keeps no row, or if the report cannot be written.
    """
    snapshot = snapshot or Snapshot(read(study))
    rows = every = snapshot.rows
    if condition is not None:
        rows = where.select(every, condition)
        if rows.empty:
            none = where.count(rows, len(every), condition)
            raise UsageError(f"{none}, so no report of {study} is written")
    plain = condition is None and wanted == ANYTHING
    shown = Study(
        name=study.resolve().name,
        folder=_command_argument(study),
        rows=ordered(rows),
        answers=snapshot.answers if plain else recommend(rows, wanted),
        unread=snapshot.stored.left_out,
        causes=finding.findings_by_run(every),  # of the whole study, which rows are compared with
        traces=study / "traces" if isinstance(study, Path) else None,
        strips=rounds.strips(study, rows["run_id"]),
    )
    drawn = chapters(shown)
    variables = context(shown, drawn) | {
        "guide": _guide(study),
        "where": condition,
        "nodes": nodes.names(snapshot.processes),
        "warnings": nodes.sentences(snapshot.processes),
    }
    texts = {picture.file: picture.svg for chapter in drawn for picture in chapter.pictures}
    texts |= {page: render.render(page, variables) for page in render.PAGES}
    folder = _folder(study)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind in _DRAWN:
            for old in folder.glob(f"{kind}-*.svg"):  # it may no longer be part of the report
                old.unlink()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"the report cannot be written to {folder} ({why})") from None
    return folder / "index.html"


def context(study: Study, drawn: Sequence[Chapter]) -> dict[str, Any]:
    """Returns the variables of the templates; `drawn` has the study's chapters of figures."""
    counts = study.rows["status"].value_counts()
    answers = answer_cards(study, drawn)
    shown = [card.picture.file for card in answers["works"] + answers["others"] if card.picture]
    rest = [
        replace(
            chapter, pictures=[picture for picture in chapter.pictures if picture.file not in shown]
        )
        for chapter in drawn
    ]
    contents = {
        "which": answers,
        "rows": listing(study),
        "figures": [
            chapter for chapter in rest if chapter.pictures or chapter.tables or chapter.note
        ],
        "diagnostics": flagged(study),
        "left-out": left_out(study),
        "environment": environments(study.rows),
        "runs": runs(study),
        "terms": None,
    }
    return {
        "study": study,
        "title": title(study),
        "places": places(study),
        "counts": ", ".join(f"{count:,} {status}" for status, count in counts.items()),
        "cases": numbers.counted(len(study.rows), "case", "cases"),
        "unread": numbers.counted(len(study.unread), "file", "files") if study.unread else "",
        "period": period(study.rows),
        "parts": [
            (name, heading, contents[name])
            for name, heading in PARTS.items()
            if name != "figures" or contents[name]
        ],
        "open": OPEN,
    }


def _folder(study: Folder) -> Path:
    if isinstance(study, RemotePath):
        return RESULTS / f"{study.scheme}-{study.name}" / "report"
    return study / "report"


def _command_argument(study: Folder) -> str:
    """How commands typed in this folder name the study: without its path if it lies elsewhere."""
    if isinstance(study, RemotePath):
        return str(study)
    path = os.path.relpath(study)
    return study.resolve().name if path.startswith("..") else path


def _guide(study: Folder) -> str | None:
    """Returns the relative path from the report's folder to GUIDE, which explains reports.

    None unless both are in this checkout.
    """
    report = _folder(study).resolve()
    inside = report.is_relative_to(ROOT) and GUIDE.exists()
    return os.path.relpath(GUIDE, report) if inside else None
