"""A folder of runs -> one table, one row per run, with every sample."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from analysis import files
from bench.store import SCHEMA

log = logging.getLogger(__name__)
MOST_NAMED = 20  # of files that are left out; the rest is counted


def load(study_folder: str | Path) -> pd.DataFrame:
    """Every run of a study: the stored columns (results/README.md), in order of their start.

    Columns a file lacks are null. A file that cannot be read or is not a run of this version is
    left out, and a logged warning names it; dot-files, which are being written, are passed over.
    Raises UsageError where there is no such study.
    """
    runs = Path(study_folder) / "runs"
    read = {one.name: files.read(runs / one.name) for one in files.found(study_folder)}
    tables = {name: table for name, table in read.items() if not isinstance(table, str)}
    left_out = {name: why for name, why in read.items() if isinstance(why, str)}
    left_out |= copies((name, table["run_id"][0].as_py()) for name, table in tables.items())
    warn(runs, left_out)
    kept = [table for name, table in tables.items() if name not in left_out]
    whole = pa.concat_tables(kept) if kept else SCHEMA.empty_table()
    return in_order(whole.to_pandas())


def copies(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of pairs (file, run_id): the files that repeat a run, and why each is left out.

    The file that is named after its run is the run; else the first one.
    """
    holders: dict[str, list[str]] = {}
    for name, run_id in named:
        holders.setdefault(run_id, []).append(name)
    found: dict[str, str] = {}
    for run_id, names in holders.items():
        if len(names) > 1:
            first = f"{run_id}.parquet" if f"{run_id}.parquet" in names else names[0]
            found |= {name: f"is a copy of {first}" for name in names if name != first}
    return found


def warn(runs: Path, left_out: Mapping[str, str]) -> None:
    """Logs a warning for each file that was left out; many are counted by reason."""
    names = sorted(left_out)
    for name in names[:MOST_NAMED]:
        log.warning("left out %s: it %s", runs / name, left_out[name])
    if more := Counter(left_out[name] for name in names[MOST_NAMED:]):
        reasons = "; ".join(f"{count} {why}" for why, count in more.most_common(3))
        log.warning("left out %d more files in %s: %s", more.total(), runs, reasons)


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs in the order of their start."""
    return runs.sort_values(["started_at", "run_id"], ignore_index=True)
