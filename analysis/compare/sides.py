"""Reads the old and the new study of a comparison, and pairs their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter

import pandas as pd

from modescope.analysis import load, where
from modescope.analysis.compare.arguments import UNREADABLE
from modescope.analysis.derive import select
from modescope.analysis.derive.select import SECTION, latest, values_of
from modescope.analysis.folders import Folder
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.metrics import derive
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped, value_of
from modescope.bench.records.caches import CACHES
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import REVISION

MATCH = ("case_id", "device", "compile_cache")
"""The columns in which a row of one side and its partner on the other are equal."""

WORK = (*(name for name in SECTION if name != "environment"), "baseline_mode", "baseline_dtype")
"""Columns in which rows of one side are equal if they share an eager baseline."""


@dataclass(frozen=True)
class StudySide:
    """One of the compared studies.

    `processes` has a row per process, and `notes` say what was left out.
    """

    label: str  # OLD | NEW
    folder: str  # as typed
    processes: pd.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """A row of the comparison: one case, with its processes in the old and in the new study.

    `old` or `new` is empty if that study lacks the case.
    """

    row: Row  # describes it: of the new side if it is there
    old: tuple[Row, ...]
    new: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The row's mode and precision: `compile fp32`, or `compile fp32, warm cache`."""
        cache = CACHES[self.row["compile_cache"]].label
        return ", ".join(filter(None, (phrases.variant(self.row), cache)))

    @property
    def work(self) -> str:
        """What was measured, and where: `mlp, batch 4, inference · cpu, 1 thread`."""
        threads = self.row["threads"]
        return (
            f"{phrases.work(self.row)} · {self.row['device']}, {threads} "
            f"thread{'' if threads == 1 else 's'}"
        )

    @property
    def group(self) -> tuple[object, ...]:
        """A key that is equal for rows which share an eager baseline."""
        return values_of(self.row, WORK)


def read(
    old: Folder, new: Folder, condition: str | None, allowed: Collection[str]
) -> tuple[StudySide, StudySide]:
    """Reads both studies; with a `condition`, only the rows that match it in at least one study.

    Processes are left out as `keep_latest_state` and `keep_shared_blocks` say. Raises UsageError if
    a study is missing, if both hold the same runs, if no row matches, or if a file is unreadable
    and `allowed`, the names given to --allow, lacks UNREADABLE.
    """
    first, second = keep_shared_blocks(*read_all({"OLD": old, "NEW": new}, condition, allowed))
    return first, second


def keep_shared_blocks(old: StudySide, new: StudySide) -> tuple[StudySide, StudySide]:
    """Drops the processes whose block was measured on one side only.

    The program `versus` measures two sides in turns, block by block. A block on one side only is
    left from an interrupted run, or from a run whose other side has changed since. Rows that have
    no block on both sides keep all their processes.
    """
    first, second = (_keys(side, "versus_block") for side in (old, new))
    shared = {key for key in {*first} & {*second} if key[-1] is not None}
    rows = {key[:-1] for key in shared}
    why = "whose block is on one side only"
    kept_old, kept_new = (
        _kept(side, [key[:-1] not in rows or key in shared for key in keys], why)
        for side, keys in ((old, first), (new, second))
    )
    return kept_old, kept_new


def _keys(side: StudySide, *further: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in as_rows(side.processes[[*MATCH, *further]])]


def _kept(side: StudySide, which: Sequence[bool], why: str | None = None) -> StudySide:
    """Returns `side` with only the processes that `which` marks, one mark per process.

    A note says how many are left out and `why`; None: no note.
    """
    out = len(which) - sum(which)
    if not out:
        return side
    table = side.processes[list(which)].reset_index(drop=True)
    count = numbers.counted(out, "process is", "processes are")
    note = () if why is None else (f"{side.label}: {count} left out, {why}",)
    return StudySide(side.label, side.folder, table, (*side.notes, *note))


def read_all(
    folders: Mapping[str, Folder], condition: str | None, allowed: Collection[str]
) -> list[StudySide]:
    """Reads several studies (`folders`: a dict from label to folder) into a StudySide each.

    With a `condition`, only the rows that match it in at least one study are kept. `allowed` and
    UsageError are as in `read`, but all blocks of versus are kept.
    """
    sides = [_read(label, folder, allowed) for label, folder in folders.items()]
    for first, second in combinations(sides, 2):
        common = {*first.processes["run_id"]} & {*second.processes["run_id"]}
        if common:
            raise UsageError(
                f"{first.label} and {second.label} hold the same runs ({len(common)}, such as "
                f"{min(common)}); measure the later code into a study of its own (study=NAME)"
            )
    return sides if condition is None else _matching(sides, condition)


def _read(label: str, folder: Folder, allowed: Collection[str]) -> StudySide:
    try:
        runs = load.read(folder)
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None
    if runs.left_out and UNREADABLE not in allowed:
        name, why = min(runs.left_out.items())
        files = numbers.counted(len(runs.left_out), "file", "files")
        raise UsageError(
            f"{label}: {files} in {folder} cannot be compared ({name} {why}); remove them, "
            f"measure again, or leave them out with --allow {UNREADABLE}"
        )
    return keep_latest_state(StudySide(label, str(folder), latest(runs.table)))


def keep_latest_state(side: StudySide) -> StudySide:
    """Drops the processes of each row that differ from its latest one in environment or code.

    Code differs if `versus` was asked to measure another state, except that two Git revisions never
    differ as states: revisions whose files differ already have different environments.
    """
    places = []
    for *key, started_at, environment, state in _keys(
        side, "started_at", "environment", "versus_state"
    ):
        is_revision = str(state).startswith(REVISION)
        places.append((started_at, tuple(key), environment, REVISION if is_revision else state))
    last = {key: place for _, key, *place in sorted(places, key=itemgetter(0))}
    which = [last[key] == place for _, key, *place in places]
    return _kept(side, which, "measured earlier in another environment or state of versus")


def _matching(sides: Sequence[StudySide], condition: str) -> list[StudySide]:
    """Keeps the rows that match `condition` in at least one study.

    Otherwise a row that matches in one study only would seem to be missing in the other study.
    """
    found = [where.select(derive(side.processes), condition) for side in sides]
    chosen = {values_of(row, MATCH) for rows in found for row in as_rows(rows[[*MATCH]])}
    if not chosen:
        raise UsageError(f"no row matches --where {condition!r}, so nothing is compared")
    return [_kept(side, [key in chosen for key in _keys(side)]) for side in sides]


def pair_rows(old: StudySide, new: StudySide) -> list[Pair]:
    """Makes a Pair of each row that a study has, sorted by model, size and mode.

    Raises UsageError if the studies have no row in common.
    """
    sides = [group_by_row(side.processes) for side in (old, new)]
    keys = list(dict.fromkeys([*sides[1], *sides[0]]))
    if not sides[0].keys() & sides[1].keys():
        raise UsageError(
            f"no row of {old.folder} is in {new.folder}: their models, sizes, modes, devices or "
            "options differ in every row; measure both sides with the same overrides"
        )
    shown = [(sides[1].get(key) or sides[0][key])[0] for key in keys]
    pairs = [
        Pair(row, tuple(sides[0].get(key, ())), tuple(sides[1].get(key, ())))
        for key, row in zip(keys, distinguish(shown), strict=True)
    ]
    return sorted(pairs, key=_place)


def _place(pair: Pair) -> tuple[object, ...]:
    row = pair.row
    section = select.natural_key(SECTION, values_of(row, SECTION))
    return section, style.order(row), row["dtype"], str(row["apart"])


def group_by_row(processes: pd.DataFrame) -> dict[tuple[object, ...], list[Row]]:
    """Groups the processes by row: by their values in the columns MATCH."""
    rows = as_rows(processes.sort_values("replicate", kind="stable"))
    return grouped((values_of(row, MATCH), row) for row in rows)


def distinguish(rows: Sequence[Row]) -> list[Row]:
    """Returns copies of `rows` with the column `apart`: options in which rows of equal name differ.

    The column `environment` is emptied: the studies may differ in it, so it is no part of a name.
    """
    columns = {*select.OPTIONS, *MATCH, *WORK, "mode", "calls_pad", "dtype"}
    frame = pd.DataFrame([{name: value_of(row, name) for name in columns} for row in rows])
    apart = select.distinguishing_options(frame.assign(environment=""))
    return [
        {**row, "environment": "", "apart": text} for row, text in zip(rows, apart, strict=True)
    ]
