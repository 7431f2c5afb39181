"""Finds nodes, or GPUs of a node, on which plain eager's times differ from those elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from modescope.analysis.derive.select import SECTION
from modescope.analysis.estimates import values
from modescope.analysis.format.phrases import listed
from modescope.bench.records.outcomes import Status

WORK = [*SECTION, "baseline_dtype"]
"""If two rows are equal in these columns, their baselines do the same work."""

MARGIN = 0.03
"""The relative difference that is usual between processes and jobs on equal nodes
(DECISIONS.md)."""

LEAST_ROWS = 5
GPU_CHARACTERS = len("GPU-") + 8  # of a UUID, which tell GPUs apart


@dataclass(frozen=True)
class Deviation:
    """A node or GPU on which eager's times differ from its times on the others."""

    name: str  # `n1`; `n1 GPU-1a2b3c4d` where rows come from several GPUs of n1
    ratio: float  # median over its rows: eager's time ÷ its median on the others for the same work
    rows: int


def deviations(processes: pd.DataFrame) -> list[Deviation]:
    """Returns nodes or GPUs whose eager times differ by more than MARGIN, the largest first.

    The times are those of the eager baselines of `processes` (`select.latest`); a node needs
    LEAST_ROWS rows. Each node that is found is removed before the next is sought, because one slow
    node of three would make the other two look fast.
    """
    rows, found = _eager(processes), list[Deviation]()
    while True:
        compared = [_deviation(rows, name) for name in rows["name"].unique()]
        judged = [node for node in compared if node.rows >= LEAST_ROWS]
        if len(compared) == 2:  # both differ: only the slower is named
            judged = [node for node in judged if node.ratio > 1]
        largest = max(judged, key=lambda node: abs(node.ratio - 1), default=None)
        if largest is None or abs(largest.ratio - 1) <= MARGIN:
            return found
        found.append(largest)
        rows = rows[rows["name"] != largest.name]


def sentences(processes: pd.DataFrame) -> list[str]:
    """Returns a sentence for each node or GPU that `deviations` returns."""
    return [
        f"node {node.name}: eager takes {node.ratio:.2f}× as long as on the others "
        f"({node.rows} rows); speedups are paired on one node and hold, absolute times (latency_s) "
        "do not compare"
        for node in deviations(processes)
    ]


def names(processes: pd.DataFrame) -> str:
    """Returns the nodes of `processes`, `n1, n2 and n3`; empty unless there are several."""
    known = sorted(processes["node"].dropna().unique())
    return listed(known) if len(known) > 1 else ""


def _eager(processes: pd.DataFrame) -> pd.DataFrame:
    """Returns a table of eager's times, with a line per process that counts.

    Columns: the node or GPU (`name`), a number that is equal for the same work (`work`), `seconds`.
    """
    rows = processes.assign(seconds=values(processes["baseline_latency_s"]))
    known = (
        rows["status"].eq(Status.OK) & (rows["budget_rank"] > 0) & rows["baseline_mode"].eq("eager")
    )
    rows = rows[known & rows["node"].notna()]
    has_several_gpus = rows.groupby("node")["gpu_uuid"].transform("nunique") > 1
    gpu = " " + rows["gpu_uuid"].astype("str").str[:GPU_CHARACTERS]
    return pd.DataFrame(
        {
            "name": rows["node"] + gpu.where(has_several_gpus).fillna(""),
            "work": rows.groupby(WORK, dropna=False).ngroup(),
            "seconds": rows["seconds"],
        }
    )


def _deviation(rows: pd.DataFrame, name: str) -> Deviation:
    is_mine = rows["name"] == name
    others = rows[~is_mine].groupby("work")["seconds"].median()
    mine = rows[is_mine]
    ratios = (mine["seconds"] / mine["work"].map(others)).dropna()
    return Deviation(name, float(ratios.median()), len(ratios))
