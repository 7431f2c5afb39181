"""Reads the two sides of a comparison, and pairs each row of one with the same row of the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from modescope.analysis import load, where
from modescope.analysis.derive import select
from modescope.analysis.derive.registry import derive
from modescope.analysis.derive.select import SECTION, latest, row_parts, values_of
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.load import Folder
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.records.results import REVISION

MATCH = ("case_id", "device", "compile_cache")
"""Columns in which a row of one side equals its partner on the other."""

WORK = (*(name for name in SECTION if name != "environment"), "baseline_mode", "baseline_dtype")
"""Columns that are equal in rows which share an eager baseline, on one side."""

UNREADABLE = "unreadable_files"
"""The name that allows files which cannot be read, instead of refusing the study."""


@dataclass(frozen=True)
class Side:
    """A study as one side: a row per process, and sentences on what was left out."""

    label: str  # OLD | NEW
    folder: str  # as typed
    processes: pd.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """A row and its processes on both sides; none on a side where the row is missing."""

    row: Row  # describes it: of the new side if it is there
    old: tuple[Row, ...]
    new: tuple[Row, ...]

    @property
    def name(self) -> str:
        """`compile fp32`."""
        cache = "" if self.row["compile_cache"] == "cold" else ", warm cache"
        return f"{phrases.variant(self.row)}{cache}"

    @property
    def work(self) -> str:
        """`transformer, batch 4, seq 64, inference · cpu, 1 thread`."""
        threads = self.row["threads"]
        return (
            f"{phrases.work(self.row)} · {self.row['device']}, {threads} "
            f"thread{'' if threads == 1 else 's'}"
        )

    @property
    def group(self) -> tuple[object, ...]:
        """Equal for rows that share an eager baseline."""
        return values_of(self.row, WORK)


def read(
    old: Folder, new: Folder, condition: str | None, allowed: Collection[str]
) -> tuple[Side, Side]:
    """Both sides; `condition` selects rows that match on either.

    Raises UsageError if one is missing or unreadable, if both are the same, or if no row matches.
    """
    first, second = took_turns(*read_all({"OLD": old, "NEW": new}, condition, allowed))
    return first, second


def took_turns(old: Side, new: Side) -> tuple[Side, Side]:
    """Of each row that versus measured only the processes whose block is on both sides.

    Others are left from an interrupted versus, or from one whose other side has changed since.
    Rows without a block in common stay as they are.
    """
    first, second = (_blocks(side) for side in (old, new))
    shared = {one for one in first if one[1] is not None} & {*second}
    rows = {key for key, _ in shared}
    return (
        _in_turns(old, [one in shared or one[0] not in rows for one in first]),
        _in_turns(new, [one in shared or one[0] not in rows for one in second]),
    )


def _blocks(side: Side) -> list[tuple[tuple[object, ...], object]]:
    """The row and the block of versus of each process; None for one that took no turn."""
    table = side.processes
    rows = phrases.as_rows(table[[*MATCH, "versus_block"]])
    return [(values_of(row, MATCH), row["versus_block"]) for row in rows]


def _in_turns(side: Side, kept: Sequence[bool]) -> Side:
    out = len(kept) - sum(kept)
    if not out:
        return side
    count = numbers.counted(out, "process is", "processes are")
    note = f"{side.label}: {count} left out, whose block is on one side only"
    table = side.processes[list(kept)].reset_index(drop=True)
    return Side(side.label, side.folder, table, (*side.notes, note))


def read_all(
    folders: Mapping[str, Folder], condition: str | None, allowed: Collection[str]
) -> list[Side]:
    """The same for any number of studies, each with its label."""
    for (label, folder), (other, same) in combinations(folders.items(), 2):
        if folder.resolve() == same.resolve():
            raise UsageError(
                f"{label} and {other} are the same study, {folder}, so nothing can differ; name "
                "the study of the earlier code first and that of the later code second"
            )
    sides = [_read(label, folder, allowed) for label, folder in folders.items()]
    for one, another in combinations(sides, 2):
        common = {*one.processes["run_id"]} & {*another.processes["run_id"]}
        if common:
            raise UsageError(
                f"{one.folder} and {another.folder} hold the same runs ({len(common)}, such as "
                f"{min(common)}): one is a copy of the other; measure the later code into a study "
                "of its own (study=NAME)"
            )
    return sides if condition is None else _matching(sides, condition)


def _read(label: str, folder: Folder, allowed: Collection[str]) -> Side:
    try:
        runs = load.read(folder)
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None
    if runs.left_out and UNREADABLE not in allowed:
        name, why = min(runs.left_out.items())
        files = f"{len(runs.left_out)} file{'s' if len(runs.left_out) > 1 else ''}"
        raise UsageError(
            f"{label}: {files} in {folder} cannot be compared ({name} {why}); remove them, "
            f"measure again, or leave them out with --allow {UNREADABLE}"
        )
    return as_measured_last(Side(label, str(folder), latest(runs.table)))


def as_measured_last(side: Side) -> Side:
    """Each row in the environment, and in the state of versus, that it was measured in last.

    A note says what is left out.
    """
    table = side.processes.assign(_state=side.processes["versus_state"].map(_state))
    last = table.sort_values("started_at").drop_duplicates([*MATCH], keep="last")
    alike = [*MATCH, "environment", "_state"]
    kept = table.merge(last[alike], on=alike).drop(columns="_state")
    older = len(table) - len(kept)
    if not older:
        return side
    count = numbers.counted(older, "older process is", "older processes are")
    note = (
        f"{side.label}: {count} left out: of each row, the environment and the state (of "
        "bench.versus) that were measured last count"
    )
    return Side(side.label, side.folder, kept, (*side.notes, note))


def _state(recorded: str | None) -> str:
    """What two rows of one interpreter or folder have in common.

    Revisions may have the same files; where they do not, the environment's letter differs.
    """
    if not isinstance(recorded, str):
        return ""
    return REVISION if recorded.startswith(REVISION) else recorded


def _matching(sides: Sequence[Side], condition: str) -> list[Side]:
    """The rows that match on any side: a row that changed is not taken for a missing one."""
    chosen: set[tuple[object, ...]] = set()
    counts = []
    for side in sides:
        every = derive(side.processes)
        rows = where.select(every, condition)
        chosen |= {tuple(values) for values in rows[[*MATCH]].to_numpy().tolist()}
        counts.append(f"{side.label}: {where.count(rows, len(every), condition)}")
    if not chosen:
        raise UsageError(
            f"{'; '.join(counts)}, so nothing is compared; "
            f"`{program('analysis.table', sides[0].folder)}` lists the rows"
        )
    return [_only(side, chosen) for side in sides]


def _only(side: Side, chosen: Collection[tuple[object, ...]]) -> Side:
    keys = side.processes[[*MATCH]].to_numpy().tolist()
    kept = side.processes[[tuple(key) in chosen for key in keys]]
    return Side(side.label, side.folder, kept.reset_index(drop=True), side.notes)


def matched(old: Side, new: Side) -> list[Pair]:
    """Every row of either side, by work and mode; UsageError if no row is on both sides."""
    sides = [by_row(side.processes) for side in (old, new)]
    keys = list(dict.fromkeys([*sides[1], *sides[0]]))
    if not sides[0].keys() & sides[1].keys():
        raise UsageError(
            f"no row of {old.folder} is in {new.folder}: their models, sizes, modes, devices or "
            "options differ in every row; measure both sides with the same overrides"
        )
    shown = [(sides[1].get(key) or sides[0][key])[0] for key in keys]
    pairs = [
        Pair(row, tuple(sides[0].get(key, ())), tuple(sides[1].get(key, ())))
        for key, row in zip(keys, named(shown), strict=True)
    ]
    return _in_order(pairs)


def by_row(processes: pd.DataFrame) -> dict[tuple[object, ...], list[Row]]:
    """The processes of each row, by the columns MATCH."""
    rows = phrases.as_rows(processes.sort_values("replicate", kind="stable"))
    return phrases.grouped((values_of(row, MATCH), row) for row in rows)


def named(rows: Sequence[Row]) -> list[Row]:
    """With the options that distinguish rows of equal names, on whatever side they were measured.

    Environments are no part of a name here: they are what differs between the sides.
    """
    columns = {*select.OPTIONS, *MATCH, *WORK, "mode", "dtype"}
    frame = pd.DataFrame([{name: row[name] for name in columns} for row in rows])
    apart = select.apart(frame.assign(environment=""))
    return [
        {**row, "environment": "", "apart": text} for row, text in zip(rows, apart, strict=True)
    ]


def _in_order(pairs: Sequence[Pair]) -> list[Pair]:
    by_run = {pair.row["run_id"]: pair for pair in pairs}
    blocks = row_parts([pair.row for pair in pairs], SECTION)
    ordered = (row for block in blocks for row in sorted(block, key=_place))
    return [by_run[row["run_id"]] for row in ordered]


def _place(row: Row) -> tuple[tuple[int, int], str, str]:
    return style.order(row), row["dtype"], str(row["apart"])
