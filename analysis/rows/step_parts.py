"""The parts of a training step, each synchronised, compared with the whole step.

Parts and step were timed in one process, the parts in a separate pass. Waiting after each part
costs time and prevents overlap with the next, so the parts need not add up to the step; their
ratio is a metric.
"""

from __future__ import annotations

from collections.abc import Callable

from modescope.analysis.format.phrases import Row
from modescope.bench.stats.estimates import Estimate

PARTS = ("forward", "backward", "optimizer", "scaler")


def parts_of(row: Row, scaler: str = "scaler_s") -> tuple[str, ...]:
    """The parts of a step; `scaler` only if it has a GradScaler (a value in column `scaler`)."""
    return PARTS if row["loss_scale"] is not None or row[scaler] is not None else PARTS[:-1]


def _sum_of_parts(run: Row) -> Estimate | None:
    """The sum of the parts ÷ the whole step of the same process."""
    known = [run[f"_{name}"] for name in parts_of(run, "_scaler")]
    if run["_latency"] is None or None in known:
        return None
    return Estimate(sum(part.value for part in known) / run["_latency"].value, None, None)


SHARES: dict[str, Callable[[Row], Estimate | None]] = {"_parts": _sum_of_parts}
"""Statistics of a process that need the estimates of its clocks."""
