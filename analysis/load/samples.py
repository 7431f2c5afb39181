"""`load`: every run of a study with its samples, always read from the files.

`analysis.load.study` reads the same runs without their samples, through a cache. Shared code is
here: warnings about files that are left out, the order of runs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from modescope.analysis.load import files, parts
from modescope.analysis.load.listing import Listing
from modescope.analysis.load.merge import FILE, Read, once, unmoved
from modescope.analysis.load.remote import Folder, located
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.sources import COMPACT, RUNS

log = logging.getLogger(__name__)
MOST_NAMED = 20  # left-out files named in warnings; the rest are counted


def load(study_folder: str | Folder) -> pd.DataFrame:
    """Every run of a study: the stored columns (results/README.md), in order of their start.

    Columns missing in a file are null. Files that cannot be read or are not runs of a supported
    version are skipped with a warning; so are dot-files, which are being written, without one.
    Raises UsageError if there is no such study.
    """
    folder = located(study_folder)
    whole, left_out = unmoved(folder, lambda found: _load(folder, found))
    warn(folder, left_out)
    return in_order(whole.to_pandas())


def _load(folder: Folder, found: Listing) -> Read:
    read = {one.name: files.read(folder / RUNS / one.name) for one in found.runs}
    tables = {name: table for name, table in read.items() if not isinstance(table, str)}
    left_out = {name: why for name, why in read.items() if isinstance(why, str)}
    origins = [name for name, table in tables.items()]
    loose = pa.concat_tables([SCHEMA.empty_table(), *tables.values()])
    loose = loose.append_column(FILE, pa.array(origins, pa.string()))
    inside = []
    for part in found.parts:
        try:
            inside.append(parts.with_samples(folder / COMPACT / part.name))
        except (OSError, ValueError, pa.ArrowException) as error:
            left_out[f"{COMPACT}/{part.name}"] = parts.why_not(error)
    whole, repeated = once(loose, inside)
    return whole.drop_columns([FILE]), left_out | repeated


def warn(folder: Folder, left_out: Mapping[str, str]) -> None:
    """Logs a warning for each file that was left out; beyond MOST_NAMED, counts by reason."""
    names, runs = sorted(left_out), folder / RUNS
    for name in names[:MOST_NAMED]:
        place = folder if name.startswith(f"{COMPACT}/") else runs
        log.warning("left out %s: it %s", place / name, left_out[name])
    if more := Counter(left_out[name] for name in names[MOST_NAMED:]):
        reasons = "; ".join(f"{count} {why}" for why, count in more.most_common(3))
        log.warning("left out %d more files in %s: %s", more.total(), runs, reasons)


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs in the order of their start."""
    return runs.sort_values(["started_at", "run_id"], ignore_index=True)
