"""The command that repeats each measurement, its run ids and its traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.causes import finding
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.names import Name, name
from modescope.analysis.report.study import Study


@dataclass(frozen=True)
class Run:
    """A row's command, its processes, their files, and its causes as sentences."""

    name: Name
    command: str
    ids: tuple[str, ...]  # run_id of each process
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
    ids = tuple(str(row["process_run_ids"]).split(";"))
    files = tuple(_files(row)) if study.is_local else ()
    return Run(name(study, row), row["command"], ids, files, _causes(study, row))


def _causes(study: Study, row: Row) -> tuple[str, ...]:
    found = study.causes.get(row["run_id"], ())
    return (*(one.text for one in found[:1]), *(finding.alone(one) for one in found[1:]))


def _files(row: Row) -> Iterator[tuple[str, str]]:
    for kind, file in (("trace", row["trace"]), ("memory snapshot", row["snapshot"])):
        if file:
            yield kind, f"../traces/{file}"
