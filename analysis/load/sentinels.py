"""Reads the sentinels of a study: plain eager of one case, measured by each worker at its start."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa

from modescope.analysis.load import files, run_stats
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.scheduling import SENTINELS


def sentinels(study_folder: str | Path) -> pd.DataFrame:
    """Every readable sentinel with the statistics of its samples; no rows where there is none.

    Unreadable ones are left out without a warning, because no result depends on them.
    """
    paths = sorted((Path(study_folder) / SENTINELS).glob("[!.]*.parquet"))
    tables = [one for one in map(files.read, paths) if not isinstance(one, str)]
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return run_stats.with_statistics(whole.to_pandas())
