"""`load`: every run of a study with its samples, always read from the files.

`analysis.load.study` reads the same runs without their samples, through a cache. Shared code is
here: duplicate files, warnings about files that are left out, the order of runs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from modescope.analysis.format.phrases import grouped
from modescope.analysis.load import files
from modescope.bench.records.parquet import SCHEMA

log = logging.getLogger(__name__)
MOST_NAMED = 20  # left-out files named in warnings; the rest are counted


def load(study_folder: str | Path) -> pd.DataFrame:
    """Every run of a study: the stored columns (results/README.md), in order of their start.

    Columns missing in a file are null. Files that cannot be read or are not runs of a supported
    version are skipped with a warning; so are dot-files, which are being written, without one.
    Raises UsageError if there is no such study.
    """
    runs = Path(study_folder) / "runs"
    read = {one.name: files.read(runs / one.name) for one in files.run_files(study_folder)}
    tables = {name: table for name, table in read.items() if not isinstance(table, str)}
    left_out = {name: why for name, why in read.items() if isinstance(why, str)}
    left_out |= copies((name, table["run_id"][0].as_py()) for name, table in tables.items())
    warn(runs, left_out)
    valid = [table for name, table in tables.items() if name not in left_out]
    whole = pa.concat_tables(valid) if valid else SCHEMA.empty_table()
    return in_order(whole.to_pandas())


def copies(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of pairs (file, run_id): the duplicate files, each with the reason to leave it out.

    The original is the file named after the run, else the first one.
    """
    holders = grouped((run_id, name) for name, run_id in named)
    repeated: dict[str, str] = {}
    for run_id, names in holders.items():
        if len(names) > 1:
            first = f"{run_id}.parquet" if f"{run_id}.parquet" in names else names[0]
            repeated |= {name: f"is a copy of {first}" for name in names if name != first}
    return repeated


def warn(runs: Path, left_out: Mapping[str, str]) -> None:
    """Logs a warning for each file that was left out; beyond MOST_NAMED, counts by reason."""
    names = sorted(left_out)
    for name in names[:MOST_NAMED]:
        log.warning("left out %s: it %s", runs / name, left_out[name])
    if more := Counter(left_out[name] for name in names[MOST_NAMED:]):
        reasons = "; ".join(f"{count} {why}" for why, count in more.most_common(3))
        log.warning("left out %d more files in %s: %s", more.total(), runs, reasons)


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs in the order of their start."""
    return runs.sort_values(["started_at", "run_id"], ignore_index=True)
