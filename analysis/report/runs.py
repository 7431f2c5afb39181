"""The command that repeats each measurement, and the files with its raw data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.causes import finding
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.names import Name, name
from modescope.analysis.report.study import Study
from modescope.bench.records.rows import ROWS


@dataclass(frozen=True)
class Run:
    """A row's command, its files, and its causes as sentences."""

    name: Name
    command: str
    files: tuple[tuple[str, str], ...]  # kind, path relative to the report
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """The runs of one work."""

    work: str
    place: str
    runs: tuple[Run, ...]


def runs(study: Study) -> dict[str, Any]:
    """The runs of each work, the kinds of their files, and how many rows are not listed."""
    groups = [_group(study, rows) for rows in study.listed_sections()]
    kinds = {kind for group in groups for run in group.runs for kind, _ in run.files}
    return {"groups": groups, "kinds": kinds, "unlisted": study.unlisted, "folder": study.folder}


def _group(study: Study, rows: Sequence[Row]) -> Group:
    runs_ = tuple(_run(study, row) for row in rows)
    return Group(phrases.work(rows[0]), study.place(rows[0]), runs_)


def _run(study: Study, row: Row) -> Run:
    return Run(name(study, row), row["command"], tuple(_files(study, row)), _causes(study, row))


def _causes(study: Study, row: Row) -> tuple[str, ...]:
    found = study.causes.get(row["run_id"], ())
    return (*(one.text for one in found[:1]), *(finding.alone(one) for one in found[1:]))


def _files(study: Study, row: Row) -> Sequence[tuple[str, str]]:
    if not study.files:
        return ()
    processes = str(row["process_run_ids"]).split(";")
    names = dict.fromkeys(study.files[run_id] for run_id in processes)
    files = [
        (f"process {number}" if len(names) > 1 else "raw data", f"../{ROWS}/{name}")
        for number, name in enumerate(names, start=1)
    ]
    files += [("trace", f"../traces/{row['trace']}")] if row["trace"] else []
    files += [("memory snapshot", f"../traces/{row['snapshot']}")] if row["snapshot"] else []
    return files
