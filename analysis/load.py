"""Reads the rows of a study, here or at an address such as s3://bucket/results/main.

Raw samples are replaced by their statistics (`analysis.rows.run_stats`); `samples` keeps them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pandas as pd
import pyarrow as pa

from modescope.analysis.rows import run_stats
from modescope.bench.records import rows
from modescope.bench.records.errors import UsageError
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.paths import runner
from modescope.bench.records.scheduling import SENTINELS

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

log = logging.getLogger(__name__)

SPEEDUP = "confirming_speedup"
"""The column with the speedup in the confirming process; its interval is beside it."""

_MARK = "://"  # what an address has and a path has not: Path("a://b") would be a:/b
_MOST_NAMED = 20  # left-out files in warnings; the rest are counted
_ENDS = {"": "value", "_ci_low": "low", "_ci_high": "high"}


@dataclass(frozen=True)
class RemotePath:
    """A folder at an address, with those methods of Path that reading needs."""

    address: str  # as typed, with what follows a `?`
    below: str = ""  # path below it

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.address, f"{self.below}/{name}")

    def __str__(self) -> str:
        return self.address.partition("?")[0].rstrip("/") + self.below

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(str(self)).name

    @property
    def scheme(self) -> str:
        """What stands before ://."""
        return self.address.partition(_MARK)[0]

    def resolve(self) -> RemotePath:
        """Itself: an address is absolute."""
        return self


Folder = Path | RemotePath


def located(folder: str | Folder) -> Folder:
    """The local folder, or the remote one that an address names; file:// is a local folder."""
    if not isinstance(folder, str):
        return folder
    if _MARK not in folder:
        return Path(folder)
    parts = urlsplit(folder)
    return Path(unquote(parts.path)) if parts.scheme == "file" else RemotePath(folder)


@dataclass(frozen=True)
class Runs:
    """The rows of a study, and each left-out file with the reason."""

    stored: pa.Table  # with encoded statistics, in no order
    left_out: dict[str, str]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows in order of their start, with their statistics."""
        return in_order(run_stats.decoded(self.stored))

    @cached_property
    def files(self) -> dict[str, str]:
        """The name of the file that holds each run."""
        paths = (PurePosixPath(path).name for path in self.stored[rows.FILE].to_pylist())
        return dict(zip(self.stored["run_id"].to_pylist(), paths, strict=True))


def read(study_folder: str | Folder) -> Runs:
    """Every row of a study with the statistics of its samples.

    Files that cannot be read, or are no rows of this schema version, are left out with a warning.
    Raises UsageError if there is no such study.
    """
    folder = located(study_folder)
    found = _rows(folder / rows.ROWS, run_stats.summarised)
    if found is None:
        raise UsageError(
            f"no study at {folder} (it has no folder {rows.ROWS}/); "
            f"{_near(folder) or f'measure one with `{runner()} study=NAME`'}"
        )
    _warn(folder / rows.ROWS, found.left_out)
    if not found.table.num_rows:
        raise UsageError(f"no row could be read in {folder / rows.ROWS}")
    return Runs(_with_confirmations(folder, found.table), found.left_out)


def _near(folder: Folder) -> str:
    """The study that was meant by a name alone, or by a file inside; empty if there is none."""
    places = () if isinstance(folder, RemotePath) else (Path("results") / folder, *folder.parents)
    found = next((place for place in places if (place / rows.ROWS).is_dir()), None)
    return f"did you mean {found}?" if found else ""


def samples(study_folder: str | Folder) -> pd.DataFrame:
    """Every row of a study as it is stored, with raw samples, in order of their start."""
    found = _rows(located(study_folder) / rows.ROWS, lambda table: table)
    table = SCHEMA.empty_table() if found is None else found.table.select(SCHEMA.names)
    return in_order(table.to_pandas())


def sentinels(study_folder: str | Folder) -> pd.DataFrame:
    """Every sentinel with the statistics of its samples; no rows if there is none.

    Sentinels are plain eager of one case, measured by each worker at its start.
    """
    return run_stats.decoded(_beside(located(study_folder) / SENTINELS))


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of their start."""
    return runs.sort_values(["started_at", "run_id"], ignore_index=True)


def _with_confirmations(folder: Folder, runs: pa.Table) -> pa.Table:
    """The rows with SPEEDUP and its interval, null if no further process confirmed a row.

    Of several that confirmed one the newest counts.
    """
    found = in_order(run_stats.decoded(_beside(folder / rows.CONFIRMATIONS)))
    ratios = dict(zip(found["confirms"], found["_ratio"], strict=True))
    known = [ratios.get(run_id) for run_id in runs["run_id"].to_pylist()]
    for end, name in _ENDS.items():
        values = [math.nan if one is None else getattr(one, name) for one in known]
        runs = runs.append_column(
            f"{SPEEDUP}{end}", pa.array(values, pa.float64(), from_pandas=True)
        )
    return runs


def _beside(folder: Folder) -> pa.Table:
    """Rows that are in no table; unreadable files are left out, as no row depends on them."""
    found = _rows(folder, run_stats.summarised)
    return run_stats.summarised(SCHEMA.empty_table()) if found is None else found.table


def _rows(folder: Folder, each: Callable[[pa.Table], pa.Table]) -> rows.Read | None:
    system, path = _opened(folder.address) if isinstance(folder, RemotePath) else (None, folder)
    if isinstance(folder, RemotePath):
        path = f"{str(path).rstrip('/')}{folder.below}"
    try:
        found = rows.read(path, SCHEMA.names, each, system)
    except OSError as error:
        raise _unreadable(folder, error) from None
    if found is None:
        return None
    named = {PurePosixPath(path).name: why for path, why in found.left_out.items()}
    return rows.Read(found.table, dict(sorted(named.items())))


@cache
def _opened(address: str) -> tuple[FileSystem, str]:
    """The file system of an address, which may ask the network, and the path in it."""
    from pyarrow.fs import FileSystem

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
