"""The nodes of a study, compared by their eager times."""

from __future__ import annotations

import pandas as pd
import pyarrow.compute as pc

from modescope.analysis.load import run_stats
from modescope.analysis.load.beside_runs import sentinels
from modescope.analysis.load.remote import Folder
from modescope.analysis.load.samples import in_order
from modescope.analysis.load.study import Runs
from modescope.analysis.nodes.groups import PLACES, READ, Group, groups, several_places
from modescope.analysis.rows.select import TO_CHOOSE, latest


def of_runs(runs: Runs | None, folder: Folder) -> tuple[Group, ...]:
    """The nodes of each environment of a study's runs; empty unless there are several."""
    if runs is None or all(pc.count_distinct(runs.stored[name]).as_py() < 2 for name in PLACES):
        return ()
    needed = {*TO_CHOOSE, *READ}
    columns = runs.stored.column_names
    names = [name for name in columns if name in needed or name.startswith("_")]
    return of_processes(latest(in_order(run_stats.decoded(runs.stored.select(names)))), folder)


def of_processes(processes: pd.DataFrame, folder: Folder) -> tuple[Group, ...]:
    """The nodes of these processes of a study, compared by them and its sentinels."""
    return groups(processes, sentinels(folder)) if several_places(processes) else ()
