"""Flags raised by comparing two rows whose values should be equal."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.metrics.formulas import pace
from modescope.analysis.rows import flags as rules
from modescope.analysis.rows.select import SAME_BASELINE, is_plain, per_row, trusted, values_of
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.records.training_options import OPTIMIZERS
from modescope.bench.stats.conditions import SLOW_PACE
from modescope.bench.summary import differ

GATE = "graph_contradicts_gate"
"""The gate (launches queued while the device is held) and a captured graph are independent ways to
exclude the host from device time, and run the same kernels of eager. The two rows come from two
processes, so each is compared with its own baseline's device time, which both have in common."""

SLOW = "slow_pace"

_SAME_KERNELS = (*SAME_BASELINE, "dtype", "grad")


def flags(rows: pd.DataFrame) -> pd.Series:
    """The flags of each row, with those from a comparison with another row."""
    at_places = {GATE: set(_contradicted(rows)), SLOW: set(_slow(rows))}
    lists = (
        [*raised, *(name for name, places in at_places.items() if at in places)]
        for at, raised in rows["_flags"].items()
    )
    return per_row(rows, lists, "object")


def touched(rows: pd.DataFrame) -> pd.Series:
    """What each flag of each row makes doubtful."""
    return per_row(rows, map(rules.touched, rows["flags"]), "object")


def _slow(rows: pd.DataFrame) -> pd.Index:
    """The index of each row during which the machine was far from its best pace."""
    return rows.index[(pace(rows) < 1 / SLOW_PACE) & (rows["budget_rank"] > 0)]


def _contradicted(rows: pd.DataFrame) -> Iterator[Hashable]:
    """The index of each row of plain eager, or eager in a graph, with unequal device times."""
    good = trusted(rows)
    needed = [*_SAME_KERNELS, *PLAIN_EAGER, "_device_gain"]
    candidates = zip(good.index, phrases.as_rows(good[needed]), strict=True)
    eager = [(place, row) for place, row in candidates if _is_eager(row)]
    gated = {values_of(row, _SAME_KERNELS): (at, row) for at, row in eager if not row["graph"]}
    for place, row in eager:
        pair = gated.get(values_of(row, _SAME_KERNELS)) if row["graph"] else None
        if pair is not None and differ(row["_device_gain"], pair[1]["_device_gain"]):
            yield from (place, pair[0])


def _is_eager(row: Row) -> bool:
    """Whether a graph runs the same kernels: some optimizers count steps on the device in one."""
    optimizer = OPTIMIZERS.get(row["optimizer"])
    counts = optimizer is not None and optimizer.counts_steps
    uncaptured = {**row, "graph": False}
    return is_plain(uncaptured) and not counts and row["_device_gain"] is not None
