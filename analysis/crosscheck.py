"""Flags that only two rows beside each other raise: what should be equal in both is not."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import pandas as pd

from analysis import words
from analysis.flags import exceeds
from analysis.rows import SECTION, trusted
from analysis.words import Row
from bench.training.choices import OPTIMIZERS

GATE = "graph_contradicts_gate"
"""The gate (launches queued ahead of a held device) and a captured graph both keep the host out of
device time, in ways that have nothing to do with each other, and run the same kernels of eager."""

_SAME_KERNELS = (*SECTION, "dtype", "grad")


def flags(rows: pd.DataFrame) -> pd.Series:
    """The flags of each row, and those that another row gives it."""
    contradicted = set(_contradicted(rows))
    told = [
        [*raised, *([GATE] if place in contradicted else [])]
        for place, raised in rows["_flags"].items()
    ]
    return pd.Series(told, index=rows.index, dtype="object")


def _contradicted(rows: pd.DataFrame) -> Iterator[Hashable]:
    """Where in the index plain eager and eager in a graph have unlike device times."""
    good = trusted(rows)
    needed = [*_SAME_KERNELS, "compile", "graph", "autocast", "_device"]
    told = zip(good.index, words.as_rows(good[needed]), strict=True)
    eager = [(place, row) for place, row in told if _is_eager(row)]
    gated = {_key(row): (place, row) for place, row in eager if not row["graph"]}
    for place, row in eager:
        found = gated.get(_key(row)) if row["graph"] else None
        if found is not None and _differ(row, found[1]):
            yield from (place, found[0])


def _is_eager(row: Row) -> bool:
    """Whether a graph would run the same kernels: in one, some optimizers count on the device."""
    optimizer = OPTIMIZERS.get(row["optimizer"])
    counts = optimizer is not None and optimizer.counts_steps
    eager = row["compile"] == "none" and not row["autocast"] and not counts
    return eager and row["_device"] is not None


def _key(row: Row) -> tuple[Hashable, ...]:
    return tuple(row[name] for name in _SAME_KERNELS)


def _differ(row: Row, other: Row) -> bool:
    one, two = row["_device"], other["_device"]
    return exceeds(one, two) or exceeds(two, one)
