"""Runs from files and from parts as one table, in which each run is once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from modescope.analysis.format.phrases import grouped
from modescope.analysis.load.listing import Listing, listing
from modescope.analysis.load.remote import Folder
from modescope.bench.records.sources import COMPACT, MOST_ATTEMPTS

FILE = "_file"
"""The column with the name of the file that a run of runs/ was read from."""

Read = tuple[pa.Table, dict[str, str]]
"""Runs, and the reason for each file or part (compact/...) that was left out."""


def unmoved(folder: Folder, read: Callable[[Listing], Read]) -> Read:
    """What `read` returns for the files of a study.

    Starts anew where a compaction has removed files that could not be read: their runs are in a
    part by now.
    """
    now = listing(folder)
    for _ in range(MOST_ATTEMPTS):
        runs, left_out = read(now)
        if not left_out:
            break
        now = listing(folder)
        there = {one.name for one in now.runs} | {f"{COMPACT}/{one.name}" for one in now.parts}
        if there >= left_out.keys():
            break
    return runs, left_out


def once(loose: pa.Table, parts: Sequence[pa.Table]) -> Read:
    """The runs of files (with the column FILE) and of parts (without it), each once.

    Of two files with a run one is a copy, which is named. A run that is also in a part is taken
    from there, because a compaction may have ended before it removed the file.
    """
    files, ids = loose[FILE].to_pylist(), loose["run_id"].to_pylist()
    repeated = copies(zip(files, ids, strict=True))
    if repeated:
        loose = loose.filter(pa.array([name not in repeated for name in files]))
    inside = [part.append_column(FILE, pa.nulls(part.num_rows, pa.string())) for part in parts]
    whole = (
        pa.concat_tables([*inside, loose.select([*inside[0].column_names])]) if inside else loose
    )
    if not inside:
        return whole, repeated
    again = pd.Index(whole["run_id"].to_numpy()).duplicated()
    if again.any():
        dropped = whole.filter(pa.array(again)).select([FILE, "run_id"]).drop_null()
        pairs = zip(dropped[FILE].to_pylist(), dropped["run_id"].to_pylist(), strict=True)
        repeated |= {
            name: f"is a copy of {run_id} in {COMPACT}/"
            for name, run_id in pairs
            if name != f"{run_id}.parquet"
        }
        whole = whole.filter(pa.array(np.logical_not(again)))
    return whole, repeated


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
