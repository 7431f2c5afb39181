"""Reads the rows of a study from a folder or an address such as s3://bucket/results/main.

`read` leaves out raw samples; `samples` keeps them. A row whose summary was computed by other
formulas than the current ones gets a new summary as it is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem, LocalFileSystem

from modescope.analysis.derive.select import per_row
from modescope.analysis.folders import Folder, RemotePath, located
from modescope.bench.records import rows
from modescope.bench.records.errors import UsageError
from modescope.bench.records.gap_steps import ELSEWHERE
from modescope.bench.records.parquet import SAMPLES, SCHEMA
from modescope.bench.records.paths import runner
from modescope.bench.records.results import StoredRow
from modescope.bench.records.summary_columns import ESTIMATES, OF_GAP, SUMMARY, VALUES
from modescope.bench.stats.estimates import Estimate
from modescope.bench.summary import VERSION, summary

log = logging.getLogger(__name__)

COLUMNS = tuple(name for name in SCHEMA.names if name not in SAMPLES)
"""The stored columns that are read of each row: all but the raw samples."""

LOCAL = LocalFileSystem()
_RECOMPUTED = ("summary_version", "verdict", "mde", "row_flags")  # of a case's processes together
_ESTIMATED = {*VALUES.values(), *(name for names in ESTIMATES.values() for name in names)}
_HIDDEN = {*SAMPLES, *_RECOMPUTED, *_ESTIMATED}

SHOWN = tuple(name for name in SCHEMA.names if name not in _HIDDEN)
"""The stored columns that a derived table keeps under their names."""

_OF_GAP = ("steps_unlike", "steps_note", *(number.column for number in OF_GAP))
_TOGETHER = (*ESTIMATES.values(), _OF_GAP)  # of which none is read without the others

_MOST_NAMED = 20  # left-out files in warnings; the rest are counted


@dataclass(frozen=True)
class Runs:
    """The rows of a study, and the files that were left out."""

    stored: pa.Table  # with COLUMNS; in any order
    further: pa.Table | None  # rows that confirm some of these, likewise
    left_out: dict[str, str]  # file -> reason

    @cached_property
    def table(self) -> pd.DataFrame:
        """All rows in order of their start, each estimate in one column of Estimates."""
        return self.decoded()

    def decoded(
        self, columns: Collection[str] = COLUMNS, run_ids: Collection[str] | None = None
    ) -> pd.DataFrame:
        """Returns `table` with some columns of COLUMNS, and with the rows of these ids; None: all.

        An estimate is there if one of its columns is among `columns`.
        """
        wanted = {*columns}
        for together in _TOGETHER:
            if not wanted.isdisjoint(together):
                wanted.update(together)
        chosen = self.stored
        if run_ids is not None:
            chosen = chosen.filter(pc.is_in(chosen["run_id"], pa.array([*run_ids], pa.string())))
        table = _decode(chosen, wanted)
        return table.assign(confirming_speedup=None) if self.further is None else self._added(table)

    @cached_property
    def _further(self) -> pd.DataFrame:
        assert self.further is not None
        return _decode(self.further, COLUMNS)

    def _added(self, table: pd.DataFrame) -> pd.DataFrame:
        """Adds to the rows what the further processes measured; of a row the newest counts."""
        further = self._further

        def added(column: str, further: pd.DataFrame) -> pd.Series:
            known = dict(zip(further["confirms"], further[column], strict=True))
            return per_row(table, map(known.get, table["run_id"]), "object")

        table = table.assign(confirming_speedup=added("speedup", further))
        if "steps_gap" not in table:
            return table
        explained = further[further["steps_gap"].notna()]
        lacks = table["steps_gap"].isna() & table["run_id"].isin(explained["confirms"])
        steps = {
            name: table[name].mask(lacks, added(name, explained))
            for name in ("steps_unlike", *(number.column for number in OF_GAP))
        }
        noted = table["steps_note"].fillna(added("steps_note", further))
        return table.assign(**steps, steps_note=noted.mask(lacks, ELSEWHERE))


def read(study_folder: str | Folder) -> Runs:
    """Reads every row of a study: what is stored except raw samples, and its estimates.

    Files that cannot be read, or have rows of another schema version, are left out with a warning.
    Raises UsageError if there is no such study, or if none of its rows can be read.
    """
    folder = located(study_folder)
    found = _rows(folder / rows.ROWS)
    if found is None:
        raise UsageError(
            f"no study at {folder} (it has no folder {rows.ROWS}/); "
            f"{_near(folder) or f'measure one with `{runner()} study=NAME`'}"
        )
    _warn(folder / rows.ROWS, found.left_out)
    if not found.table.num_rows:
        raise UsageError(f"no row could be read in {folder / rows.ROWS}")
    again = _rows(folder / rows.CONFIRMATIONS)  # without the unreadable: no row needs them
    return Runs(found.table, None if again is None else again.table, found.left_out)


def of_rows(measured: Sequence[StoredRow]) -> Runs:
    """Returns rows in hand, with all columns of SCHEMA, as `read` returns those of their study."""
    table = pa.Table.from_pylist(list(measured), schema=SCHEMA)
    return Runs(table.select(COLUMNS), None, {})


def _near(folder: Folder) -> str:
    """Returns `did you mean …?` with the study that was probably meant, or an empty text.

    The user may have typed only the study's name, a file inside the study, or a similar name.
    """
    if isinstance(folder, RemotePath):
        return ""
    places = (Path("results") / folder, *folder.parents)
    found = [place for place in places if (place / rows.ROWS).is_dir()]
    if not found:
        around = folder.parent.parent
        known = sorted(place.parent for place in around.glob(f"*/*/{rows.ROWS}/"))
        found = [place for place in known if _are_like(folder.parts[-2:], place.parts[-2:])]
    return f"did you mean {found[0]}?" if found else ""


def _are_like(typed: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the last of these parts of paths are like each other, and those before."""
    pairs = zip(typed[::-1], names[::-1], strict=False)  # a name may be typed without its folder
    return all(get_close_matches(word, [name]) for word, name in pairs)


def samples(
    study_folder: str | Folder, columns: Sequence[str] = tuple(SCHEMA.names)
) -> pd.DataFrame:
    """Reads every row of a study as it is stored, with raw samples, sorted by start time.

    `columns`: those to return, beside what says when a row began and whether it can be read.
    """
    needed = [name for name in SCHEMA.names if name in {*_TO_READ, *columns}]
    found = _rows(located(study_folder) / rows.ROWS, needed)
    table = SCHEMA.empty_table() if found is None else found.table
    table = table.select(needed)
    return sort_by_start(table.to_pandas())


_TO_READ = ("schema_version", "run_id", "started_at", "summary_version")


def sort_by_start(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns `runs` sorted by start time."""
    return runs.sort_values(["started_at", "run_id"], ignore_index=True)


def _rows(folder: Folder, columns: Sequence[str] = COLUMNS) -> rows.Read | None:
    system, path = _open(folder.address) if isinstance(folder, RemotePath) else (LOCAL, "")
    path = f"{path.rstrip('/')}{folder.below}" if isinstance(folder, RemotePath) else str(folder)
    try:
        found = rows.read(path, columns, system)
        if found is not None and not _is_current(found.table):
            found = rows.read(path, SCHEMA.names, system)
    except OSError as error:
        raise _unreadable(folder, error) from None
    if found is None:
        return None
    table = found.table if _is_current(found.table) else with_summary(found.table)
    named = {PurePosixPath(path).name: why for path, why in found.left_out.items()}
    return rows.Read(table.select(columns), dict(sorted(named.items())))


def _is_current(table: pa.Table) -> bool:
    return {*table["summary_version"].to_pylist()} <= {VERSION}


def with_summary(table: pa.Table) -> pa.Table:
    """Returns `table` with its summary columns computed anew from its samples."""
    computed = pa.Table.from_pylist(list(map(summary, table.to_pylist())), schema=SUMMARY)
    columns = {name: table[name] for name in table.column_names}
    return pa.table(columns | {name: computed[name] for name in SUMMARY.names})


def _decode(table: pa.Table, wanted: Collection[str]) -> pd.DataFrame:
    """Returns the rows in order of start, with the columns of `wanted` that `Runs.table` has."""
    shown = [name for name in table.column_names if name in wanted and name not in _HIDDEN]
    frame: pd.DataFrame = table.select(shown).to_pandas()
    made = {"flags": per_row(frame, table["row_flags"].to_pylist(), "object")}
    for columns in (columns for columns in ESTIMATES.values() if columns[0] in wanted):
        made[columns[0]] = per_row(frame, _estimates(table, columns), "object")
    for column in (column for column in VALUES.values() if column in wanted):
        made[column] = per_row(frame, table[column].to_pylist())
    return sort_by_start(frame.assign(**made))


def _estimates(table: pa.Table, columns: Sequence[str]) -> list[Any]:
    """Returns the Estimate of each row; None where the value in the first column is null."""
    known = np.flatnonzero(table[columns[0]].is_valid())
    parts = (table[column].take(known).to_pylist() for column in columns)
    found = np.full(len(table), None, dtype=object)
    found[known] = [*map(Estimate, *parts)]
    return found.tolist()


@cache
def _open(address: str) -> tuple[FileSystem, str]:
    try:
        system, path = FileSystem.from_uri(address)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(RemotePath(address), error) from None
    return system, path


def _unreadable(folder: Folder, error: Exception) -> UsageError:
    hint = (
        "; check the address, the network and your credentials "
        "(docs/many-results.md#from-s3-and-other-stores)"
    )
    why = str(error).partition("\n")[0]
    return UsageError(
        f"{folder} cannot be read ({why}){hint if isinstance(folder, RemotePath) else ''}"
    )


def _warn(folder: Folder, left_out: dict[str, str]) -> None:
    for name in list(left_out)[:_MOST_NAMED]:
        log.warning("left out %s: it %s", folder / name, left_out[name])
    if len(left_out) > _MOST_NAMED:
        log.warning("left out %d more files in %s", len(left_out) - _MOST_NAMED, folder)
