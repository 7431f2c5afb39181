"""Reads the rows that a study keeps beside its runs: they are in no table.

Sentinels are plain eager of one case, measured by each worker at its start. Confirmations are
further processes of a run's case, whose speedup is put beside that run's own.
"""

from __future__ import annotations

import math

import pandas as pd
import pyarrow as pa

from modescope.analysis.load import files, run_stats
from modescope.analysis.load.listing import parquet_files
from modescope.analysis.load.remote import Folder, located
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.scheduling import SENTINELS
from modescope.bench.records.sources import CONFIRMATIONS

SPEEDUP = "confirming_speedup"
"""The column with the speedup in the confirming process; its interval is beside it."""

ENDS = {"": "value", "_ci_low": "low", "_ci_high": "high"}


def sentinels(study_folder: str | Folder) -> pd.DataFrame:
    """Every sentinel with the statistics of its samples; no rows where there is none."""
    return _rows(located(study_folder) / SENTINELS)


def with_confirmations(folder: Folder, runs: pa.Table) -> pa.Table:
    """The runs of a study with SPEEDUP and its interval, null where no process confirmed a run.

    Of several that confirmed one the newest counts.
    """
    found = _rows(folder / CONFIRMATIONS).sort_values("started_at")
    ratios = dict(zip(found["confirms"], found["_ratio"], strict=True))
    known = [ratios.get(run_id) for run_id in runs["run_id"].to_pylist()] if ratios else []
    for end, name in ENDS.items():
        values = [math.nan if one is None else getattr(one, name) for one in known]
        column = pa.array(values, pa.float64(), from_pandas=True)
        runs = runs.append_column(
            f"{SPEEDUP}{end}", column if known else pa.nulls(len(runs), pa.float64())
        )
    return runs


def _rows(folder: Folder) -> pd.DataFrame:
    """Unreadable files are left out without a warning, as no row depends on them."""
    found = (files.read(folder / one.name) for one in parquet_files(folder) or ())
    tables = [one for one in found if not isinstance(one, str)]
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return run_stats.with_statistics(whole.to_pandas())
