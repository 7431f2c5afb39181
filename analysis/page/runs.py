"""How each row is measured again, and where its raw samples are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis import words
from analysis.page.names import Name, name
from analysis.page.study import Study
from analysis.words import Row


@dataclass(frozen=True)
class Run:
    """A row's command, and its files beside the report's folder."""

    name: Name
    command: str
    files: tuple[tuple[str, str], ...]  # what it is, path relative to the report


@dataclass(frozen=True)
class Group:
    """The runs of one work."""

    work: str
    place: str
    runs: tuple[Run, ...]


def runs(study: Study) -> dict[str, Any]:
    """The runs of each work, and of how many rows nothing is listed."""
    groups = [_group(study, rows) for rows in study.listed_sections()]
    kinds = {kind for group in groups for run in group.runs for kind, _ in run.files}
    return {"groups": groups, "kinds": kinds, "unlisted": study.unlisted, "folder": study.folder}


def _group(study: Study, rows: Sequence[Row]) -> Group:
    runs_ = tuple(_run(study, row) for row in rows)
    return Group(words.work(rows[0]), study.place(rows[0]), runs_)


def _run(study: Study, row: Row) -> Run:
    return Run(name(study, row), row["command"], tuple(_files(row)))


def _files(row: Row) -> Sequence[tuple[str, str]]:
    processes = str(row["process_run_ids"]).split(";")
    several = len(processes) > 1
    found = [
        (f"process {number}" if several else "raw data", f"../runs/{run_id}.parquet")
        for number, run_id in enumerate(processes, start=1)
    ]
    found += [("trace", f"../traces/{row['trace']}")] if row["trace"] else []
    found += [("memory snapshot", f"../traces/{row['snapshot']}")] if row["snapshot"] else []
    return found
