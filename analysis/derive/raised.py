"""The flags of each row of a table, among them those that need other rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import pandas as pd

from modescope.analysis.derive.flags import (
    GAP_S,
    GATE,
    LONGER,
    MOST_LONGER,
    SLOW,
    doubtful_figures,
)
from modescope.analysis.derive.select import (
    SAME_BASELINE,
    TRUSTED,
    is_plain,
    per_row,
    trusted,
    values_of,
)
from modescope.analysis.estimates import values
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, required
from modescope.bench import summary
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.records.optimizers import OPTIMIZERS
from modescope.bench.stats.estimates import Estimate, ends

_SAME_KERNELS = (*SAME_BASELINE, "dtype", "grad")


def flags(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row a list of its flags.

    These are the flags raised when it was measured, LONGER, and two that need other rows: GATE if
    device times contradict each other (`_contradicted`), and SLOW if the machine was far slower
    than at its best in this environment.
    """
    longer = rows["profiled_span_s"].astype("float64") > MOST_LONGER * values(rows["latency_s"])
    at_places = {
        GATE: set(_contradicted(rows)),
        SLOW: set(rows.index[rows["_slow"]]),
        LONGER: set(rows.index[longer]),
    }
    lists = (
        [*raised, *(name for name, places in at_places.items() if at in places)]
        for at, raised in rows["flags"].items()
    )
    return per_row(rows, lists, "object")


def flags_touch(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row what each of its `flags` makes doubtful, in order."""
    return per_row(rows, map(doubtful_figures, rows["flags"]), "object")


def _contradicted(rows: pd.DataFrame) -> Iterator[Hashable]:
    """Yields the index labels of eager rows whose device times contradict each other.

    Two rows run the same kernels, one in a CUDA graph and one not, but differ in device time by
    more than a tolerance, beyond the pauses between kernels that a graph shortens. Both labels are
    yielded.
    """
    needed = [*_SAME_KERNELS, *PLAIN_EAGER, "device_gain", "device_s", "kernels"]
    good = trusted(rows[[*dict.fromkeys([*needed, *TRUSTED])]])
    good = good[good["device_gain"].notna()]
    candidates = zip(good.index, as_rows(good[needed]), strict=True)
    eager = [(place, row) for place, row in candidates if _is_eager(row)]
    gated = {values_of(row, _SAME_KERNELS): (at, row) for at, row in eager if not row["graph"]}
    for place, row in eager:
        pair = gated.get(values_of(row, _SAME_KERNELS)) if row["graph"] else None
        if pair is not None and summary.differ(
            required(row["device_gain"]), _without_pauses(pair[1])
        ):
            yield from (place, pair[0])


def _without_pauses(row: Row) -> Estimate:
    """Returns the device gain of an eager row, up to what a graph would make it."""
    gain = required(row["device_gain"])
    saved = min(0.5, GAP_S * (row["kernels"] or 0) / required(row["device_s"]).value)
    low, high = ends(gain)
    return Estimate(gain.value, low, high / (1 - saved))


def _is_eager(row: Row) -> bool:
    """Whether a row is eager, and runs the same kernels with and without a CUDA graph.

    Some optimizers count their steps on the device when a graph captures them, which adds kernels.
    """
    optimizer = OPTIMIZERS.get(row["optimizer"] or "")
    counts = optimizer is not None and optimizer.counts_steps
    return is_plain({**row, "graph": False}) and not counts
