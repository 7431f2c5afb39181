"""The parts of a training step, each synchronised, compared with the whole step.

The parts have blocks of their own, and each block also times the whole step. Waiting after each
part costs time and prevents overlap with the next, so the parts need not add up to the step; their
ratio is a metric.
"""

from __future__ import annotations

from collections.abc import Callable

from modescope.analysis.format.phrases import Row
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate

PARTS = ("forward", "backward", "optimizer", "scaler")


def parts_of(row: Row, scaler: str = "scaler_s") -> tuple[str, ...]:
    """The parts of a step; `scaler` only if it has a GradScaler (a value in column `scaler`)."""
    return PARTS if row["loss_scale"] is not None or row[scaler] is not None else PARTS[:-1]


def _sum_of_parts(run: Row) -> Estimate | None:
    """The sum of the parts ÷ the whole step, both of the same block."""
    parts = [run[f"{name}_rounds_s"] for name in parts_of(run, "scaler_rounds_s")]
    if any(blocks is None for blocks in parts):
        return None
    sums_s = [sum(block) for block in zip(*parts, strict=False)]
    return estimates.ratio(sums_s, run["parts_latency_rounds_s"])


STATISTICS: dict[str, Callable[[Row], Estimate | None]] = {"_parts": _sum_of_parts}
"""Statistics of a process, from the rounds that it stores."""
