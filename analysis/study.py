"""A folder of runs -> one table, one row per run with what it says of itself.

Tens of thousands of files take minutes to read and a second where a cache holds what they said, so
only those that are new or changed are read. `analysis.load` gives the samples as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from analysis import answers, cache, files, words
from analysis.files import Found
from analysis.load import copies, in_order, warn
from analysis.spreading import spread
from bench.store import SCHEMA

WORTH_KEEPING = 50  # files read anew; fewer are read again before they have been noticed
_WORTH_PROCESSES = 1000  # files; fewer are read before processes have started
_AT_ONCE = 40  # files that are read before their runs are asked

_KEY = {"_file": pa.string(), "_size": pa.int64(), "_mtime_ns": pa.int64()}


@dataclass(frozen=True)
class Runs:
    """What a study's folder holds: the runs, and the files that are none, each with its reason."""

    table: pd.DataFrame
    left_out: dict[str, str]


def read(study_folder: str | Path) -> Runs:
    """Every run of a study, in order of their start: stored columns but the samples, and answers.

    Answers are those of `analysis.answers`. Files that are left out are also named in a logged
    warning. Raises UsageError where there is no such study.
    """
    folder = Path(study_folder)
    there = files.found(folder)
    known = _still_true(cache.kept(folder), there)
    have = set(known["_file"].to_pylist())
    fresh, left_out = _read([one for one in there if one.name not in have], folder / "runs")
    whole = pa.concat_tables([known, fresh]).combine_chunks()
    if fresh.num_rows >= WORTH_KEEPING:
        cache.keep(folder, whole)
    named = zip(whole["_file"].to_pylist(), whole["run_id"].to_pylist(), strict=True)
    repeated = copies(named)
    if repeated:
        whole = whole.filter(pc.invert(pc.is_in(whole["_file"], pa.array(list(repeated)))))
    left_out |= repeated
    warn(folder / "runs", left_out)
    return Runs(in_order(answers.decoded(whole)), left_out)


def _still_true(known: pa.Table | None, there: Sequence[Found]) -> pa.Table:
    """The rows of a cache whose files are as they were."""
    if known is None:
        return _nothing()
    now = {(one.name, one.size, one.mtime_ns) for one in there}
    keys = zip(*(known[name].to_pylist() for name in _KEY), strict=True)
    kept: pa.Table = known.filter(pa.array([key in now for key in keys], pa.bool_()))
    return kept


def _read(new: Sequence[Found], runs: Path) -> tuple[pa.Table, dict[str, str]]:
    """The runs in these files with their answers, and why the others are left out."""
    batches = [new[place : place + _AT_ONCE] for place in range(0, len(new), _AT_ONCE)]
    tables = [_nothing()]
    left_out: dict[str, str] = {}
    worth_it = len(new) >= _WORTH_PROCESSES
    bar = tqdm(total=len(new), desc="reading runs", unit="run", delay=2, leave=False, disable=None)
    with bar, closing(spread(partial(_of_batch, runs), batches, worth_it)) as results:
        for table, why in results:
            tables.append(table)
            left_out |= why
            bar.update(table.num_rows + len(why))
    return pa.concat_tables(tables), left_out


def _of_batch(runs: Path, batch: Sequence[Found]) -> tuple[pa.Table, dict[str, str]]:
    found = [(one, files.read(runs / one.name)) for one in batch]
    left_out = {one.name: table for one, table in found if isinstance(table, str)}
    good = [(one, table) for one, table in found if not isinstance(table, str)]
    if not good:
        return _nothing(), left_out
    stored = pa.concat_tables([table for _, table in good])
    told = [answers.ask(run) for run in words.as_rows(stored.to_pandas())]
    kept = _kept(stored, [one for one, _ in good], told)
    return kept.combine_chunks(), left_out  # many pieces take longer to pickle than to read


def _kept(stored: pa.Table, found: Sequence[Found], told: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Stored rows without their samples, with the keys of their files and their answers."""
    keys = zip(*map(astuple, found), strict=True) if found else ([] for _ in _KEY)
    table = stored.drop_columns(list(answers.SAMPLES))
    for (name, kind), values in zip(_KEY.items(), keys, strict=True):
        table = table.append_column(name, pa.array(values, kind))
    for name, column in answers.encoded(told).items():
        table = table.append_column(name, column)
    return table


@functools.cache
def _nothing() -> pa.Table:
    """No run, in the columns that are kept of one."""
    return _kept(SCHEMA.empty_table(), [], [])
