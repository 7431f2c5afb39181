"""Reads the sentinels of a study: plain eager of one case, measured by each worker at its start."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from modescope.analysis.load import files, run_stats
from modescope.analysis.load.listing import parquet_files
from modescope.analysis.load.remote import Folder, located
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.scheduling import SENTINELS


def sentinels(study_folder: str | Folder) -> pd.DataFrame:
    """Every readable sentinel with the statistics of its samples; no rows where there is none.

    Unreadable ones are left out without a warning, because no result depends on them.
    """
    folder = located(study_folder) / SENTINELS
    found = (files.read(folder / one.name) for one in parquet_files(folder) or ())
    tables = [one for one in found if not isinstance(one, str)]
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return run_stats.with_statistics(whole.to_pandas())
