"""Reads those works of a large study that are wanted, with all runs that their rows depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from modescope.analysis.load import keys, parts
from modescope.analysis.load.beside_runs import with_confirmations
from modescope.analysis.load.keys import Keys
from modescope.analysis.load.listing import Listing, listing
from modescope.analysis.load.merge import FILE, Read, copies, unmoved
from modescope.analysis.load.remote import Folder, located
from modescope.analysis.load.samples import warn
from modescope.analysis.load.study import Runs, loose_runs
from modescope.bench.records.sources import COMPACT, RUNS

LARGE = 20_000
"""Runs; of fewer all are read, which takes seconds."""

PACE = "_environment_pace_s"
"""The column with the shortest pace of the run's environment in the whole study."""

Choice = Callable[[Keys], NDArray[np.bool_]]
"""Which runs are wanted."""


@dataclass(frozen=True)
class Chosen:
    """Some works of a study."""

    runs: Runs
    keys: Keys  # of the whole study


def is_large(study_folder: str | Folder) -> bool:
    """Whether reading a part of a study is worth while. Raises UsageError if there is none."""
    folder = located(study_folder)
    found = listing(folder)
    count = len(found.runs)
    for part in found.parts:
        try:
            with parts.opened(folder / COMPACT / part.name) as file:
                count += file.metadata.num_rows
        except (OSError, ValueError, pa.ArrowException):
            continue
    return count > LARGE


def read(study_folder: str | Folder, choice: Choice, wanted: Sequence[str] = ()) -> Chosen | None:
    """The runs of a study that `choice` selects, and those that their rows depend on.

    `wanted`: columns of `keys.WORK` that the choice reads beside those of `keys.COLUMNS`.
    Their environments (column environment) are named as in the whole study. None where a run is
    there twice, as after a killed compaction, or a part is damaged: then all have to be read.
    Raises UsageError if there is no such study.
    """
    folder = located(study_folder)
    kept: list[Keys | None] = []

    def read_once(found: Listing) -> Read:
        kept[:] = [None]
        table, left_out, known = _read(
            folder, found, choice, [one for one in wanted if one not in keys.COLUMNS]
        )
        kept[:] = [known]
        return table, left_out

    table, left_out = unmoved(folder, read_once)
    if kept[0] is None:
        return None
    warn(folder, left_out)
    return Chosen(Runs(table, left_out), kept[0])


def _read(
    folder: Folder, found: Listing, choice: Choice, wanted: Sequence[str]
) -> tuple[pa.Table, dict[str, str], Keys | None]:
    """The chosen runs in the columns of the cache, environment and PACE; the left-out files."""
    loose, left_out = loose_runs(folder, found.runs)
    repeated = copies(zip(loose[FILE].to_pylist(), loose["run_id"].to_pylist(), strict=True))
    names = (*keys.COLUMNS, *wanted)
    sources: dict[str, parts.Columns] = {}
    for part in found.parts:
        name = f"{COMPACT}/{part.name}"
        try:
            sources[name] = parts.columns(folder / name, part, names, keys.CODED)
        except (OSError, ValueError, pa.ArrowException) as error:
            left_out[name] = parts.why_not(error)
    sources[RUNS] = parts.of_table(loose.select(parts.CACHED.names), names, keys.CODED)
    known = Keys(pa.concat_tables([one.keys for one in sources.values()]))
    ids = known.table["run_id"]
    if repeated or pc.count_distinct(ids).as_py() < len(ids):
        return parts.CACHED.empty_table(), left_out, None
    chosen = known.closed(choice(known))
    tables, start = [], 0
    for name, one in sources.items():
        mine = chosen[start : start + one.keys.num_rows]
        start += one.keys.num_rows
        try:
            tables += [one.rows(mine)] if mine.any() else []
        except (OSError, ValueError, pa.ArrowException) as error:  # gone, or damaged elsewhere
            return parts.CACHED.empty_table(), left_out | {name: parts.why_not(error)}, None
    whole = pa.concat_tables([parts.CACHED.empty_table(), *tables]).combine_chunks()
    paces = pd.Series(known.fastest_paces(), dtype="float64")
    whole = with_confirmations(folder, whole)
    environments = whole["environment_id"].to_pandas()
    whole = whole.append_column("environment", pa.array(known.letters[chosen], pa.string()))
    whole = whole.append_column(PACE, pa.array(environments.map(paces), pa.float64()))
    return whole, left_out, known
