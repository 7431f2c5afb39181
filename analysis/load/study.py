"""`read`: every run of a study with the statistics of its samples, but not the samples.

Reading tens of thousands of files takes minutes; with the cache of an earlier read it takes a
second, as only new and changed files are opened. `analysis.load.samples` reads the samples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from functools import cached_property, partial

import pandas as pd
import pyarrow as pa

from modescope.analysis.load import cache, files, parts, run_stats
from modescope.analysis.load.beside_runs import with_confirmations
from modescope.analysis.load.listing import Listing, RunFile
from modescope.analysis.load.merge import FILE, Read, once, unmoved
from modescope.analysis.load.parallel import progress, spread
from modescope.analysis.load.remote import Folder, located
from modescope.analysis.load.samples import in_order, warn
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.sources import COMPACT, RUNS

WORTH_CACHING = 50  # new files; reading fewer again takes no noticeable time
_WORTH_PROCESSES = 1000  # files; fewer are read faster than processes start
_AT_ONCE = 40  # files read before their statistics are computed

_KEY = {FILE: pa.string(), "_size": pa.int64(), "_mtime_ns": pa.int64()}


@dataclass(frozen=True)
class Runs:
    """The contents of a study's folder: its runs, and each left-out file with the reason.

    Files are named as in runs/; parts as compact/part-...
    """

    stored: pa.Table  # with encoded statistics, in no order
    left_out: dict[str, str]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The runs in order of their start, with their statistics (`run_stats.with_statistics`)."""
        return in_order(run_stats.decoded(self.stored))

    def encoded(self, is_wanted: Callable[[str], bool]) -> pd.DataFrame:
        """Columns of the runs in no order, with one for each number of a statistic."""
        names = [name for name in self.stored.column_names if is_wanted(name)]
        return run_stats.frame(self.stored.select(names))

    def rows(self, places: Sequence[int]) -> pd.DataFrame:
        """All such columns of the runs at these positions, of the same types as for all runs."""
        chosen = run_stats.frame(self.stored.take(pa.array(places, pa.int64())))
        for name, kind in ((one.name, one.type) for one in self.stored.schema):
            if name in chosen and self.stored[name].null_count:
                if pa.types.is_integer(kind):
                    chosen[name] = chosen[name].astype("float64")
                elif pa.types.is_boolean(kind):
                    chosen[name] = chosen[name].astype("object")
        return chosen


def read(study_folder: str | Folder) -> Runs:
    """Every run of a study, in order of their start: stored columns, statistics for samples.

    The statistics are those of `analysis.load.run_stats`. Left-out files are also named in logged
    warnings. Raises UsageError if there is no such study.
    """
    folder = located(study_folder)
    whole, left_out = unmoved(folder, lambda found: _read_all(folder, found))
    warn(folder, left_out)
    return Runs(with_confirmations(folder, whole), left_out)


def _read_all(folder: Folder, found: Listing) -> Read:
    loose, left_out = loose_runs(folder, found.runs)
    inside = []
    for part in found.parts:
        try:
            inside.append(parts.with_statistics(folder / COMPACT / part.name, part))
        except (OSError, ValueError, pa.ArrowException) as error:
            left_out[f"{COMPACT}/{part.name}"] = parts.why_not(error)
    whole, repeated = once(loose, inside)
    return whole, left_out | repeated


def loose_runs(folder: Folder, existing: Sequence[RunFile]) -> Read:
    """The runs of runs/ with the keys of their files, through the cache; copies included."""
    cached = _unchanged(cache.load(folder), existing)
    names = set(cached[FILE].to_pylist())
    fresh, left_out = _read([one for one in existing if one.name not in names], folder / RUNS)
    whole = pa.concat_tables([cached, fresh]).combine_chunks()
    if fresh.num_rows >= WORTH_CACHING:
        cache.store(folder, whole)
    return whole, left_out


def _unchanged(cached: pa.Table | None, existing: Sequence[RunFile]) -> pa.Table:
    """The rows of a cache whose files have not changed."""
    if cached is None:
        return _no_runs()
    now = set(map(astuple, existing))
    keys = zip(*(cached[name].to_pylist() for name in _KEY), strict=True)
    valid: pa.Table = cached.filter(pa.array([key in now for key in keys], pa.bool_()))
    return valid


def _read(new: Sequence[RunFile], runs: Folder) -> tuple[pa.Table, dict[str, str]]:
    """The runs in these files with their statistics, and the reason for each left-out file."""
    batches = [new[place : place + _AT_ONCE] for place in range(0, len(new), _AT_ONCE)]
    tables = [_no_runs()]
    left_out: dict[str, str] = {}
    worth_it = len(new) >= _WORTH_PROCESSES
    bar = progress(len(new), "reading runs")
    with bar, closing(spread(partial(_of_batch, runs), batches, worth_it)) as results:
        for table, why in results:
            tables.append(table)
            left_out |= why
            bar.update(table.num_rows + len(why))
    return pa.concat_tables(tables), left_out


def _of_batch(runs: Folder, batch: Sequence[RunFile]) -> tuple[pa.Table, dict[str, str]]:
    contents = [(one, files.read(runs / one.name)) for one in batch]
    left_out = {one.name: why for one, why in contents if isinstance(why, str)}
    good = {one: table for one, table in contents if not isinstance(table, str)}
    if not good:
        return _no_runs(), left_out
    table = _cacheable(pa.concat_tables(good.values()), list(good))
    return table.combine_chunks(), left_out  # pickling many chunks would take longer than reading


def _cacheable(stored: pa.Table, origins: Sequence[RunFile]) -> pa.Table:
    """Stored rows with the keys of their files, and with statistics instead of samples."""
    keys = zip(*map(astuple, origins), strict=True) if origins else ([] for _ in _KEY)
    table = parts.summarised(stored)
    for (name, kind), values in zip(_KEY.items(), keys, strict=True):
        table = table.append_column(name, pa.array(values, kind))
    return table


@functools.cache
def _no_runs() -> pa.Table:
    """An empty table with the columns of the cache."""
    return _cacheable(SCHEMA.empty_table(), [])
