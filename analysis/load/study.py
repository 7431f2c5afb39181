"""`read`: every run of a study with the statistics of its samples, but not the samples.

Reading tens of thousands of files takes minutes; with the cache of an earlier read it takes a
second, as only new and changed files are opened. `analysis.load.samples` reads the samples.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from modescope.analysis.format import phrases
from modescope.analysis.load import cache, files, run_stats
from modescope.analysis.load.files import RunFile
from modescope.analysis.load.parallel import spread
from modescope.analysis.load.samples import copies, in_order, warn
from modescope.bench.records.parquet import SCHEMA

WORTH_CACHING = 50  # new files; reading fewer again takes no noticeable time
_WORTH_PROCESSES = 1000  # files; fewer are read faster than processes start
_AT_ONCE = 40  # files read before their statistics are computed

_KEY = {"_file": pa.string(), "_size": pa.int64(), "_mtime_ns": pa.int64()}


@dataclass(frozen=True)
class Runs:
    """The contents of a study's folder: its runs, and each left-out file with the reason."""

    table: pd.DataFrame
    left_out: dict[str, str]


def read(study_folder: str | Path) -> Runs:
    """Every run of a study, in order of their start: stored columns, statistics for samples.

    The statistics are those of `analysis.load.run_stats`. Left-out files are also named in logged
    warnings. Raises UsageError if there is no such study.
    """
    folder = Path(study_folder)
    existing = files.run_files(folder)
    cached = _unchanged(cache.load(folder), existing)
    names = set(cached["_file"].to_pylist())
    fresh, left_out = _read([one for one in existing if one.name not in names], folder / "runs")
    whole = pa.concat_tables([cached, fresh]).combine_chunks()
    if fresh.num_rows >= WORTH_CACHING:
        cache.store(folder, whole)
    repeated = copies(zip(whole["_file"].to_pylist(), whole["run_id"].to_pylist(), strict=True))
    if repeated:
        whole = whole.filter(pc.invert(pc.is_in(whole["_file"], pa.array(list(repeated)))))
    left_out |= repeated
    warn(folder / "runs", left_out)
    return Runs(in_order(run_stats.decoded(whole)), left_out)


def _unchanged(cached: pa.Table | None, existing: Sequence[RunFile]) -> pa.Table:
    """The rows of a cache whose files have not changed."""
    if cached is None:
        return _no_runs()
    now = set(map(astuple, existing))
    keys = zip(*(cached[name].to_pylist() for name in _KEY), strict=True)
    valid: pa.Table = cached.filter(pa.array([key in now for key in keys], pa.bool_()))
    return valid


def _read(new: Sequence[RunFile], runs: Path) -> tuple[pa.Table, dict[str, str]]:
    """The runs in these files with their statistics, and the reason for each left-out file."""
    batches = [new[place : place + _AT_ONCE] for place in range(0, len(new), _AT_ONCE)]
    tables = [_no_runs()]
    left_out: dict[str, str] = {}
    worth_it = len(new) >= _WORTH_PROCESSES
    bar = tqdm(total=len(new), desc="reading runs", unit="run", delay=2, leave=False, disable=None)
    with bar, closing(spread(partial(_of_batch, runs), batches, worth_it)) as results:
        for table, why in results:
            tables.append(table)
            left_out |= why
            bar.update(table.num_rows + len(why))
    return pa.concat_tables(tables), left_out


def _of_batch(runs: Path, batch: Sequence[RunFile]) -> tuple[pa.Table, dict[str, str]]:
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
    table = stored.drop_columns(list(run_stats.SAMPLES))
    for (name, kind), values in zip(_KEY.items(), keys, strict=True):
        table = table.append_column(name, pa.array(values, kind))
    statistics = map(run_stats.of_run, phrases.as_rows(stored.to_pandas()))
    for name, column in run_stats.encoded(list(statistics)).items():
        table = table.append_column(name, column)
    return table


@functools.cache
def _no_runs() -> pa.Table:
    """An empty table with the columns of the cache."""
    return _cacheable(SCHEMA.empty_table(), [])
