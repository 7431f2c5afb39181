"""The ratio of two modes of the same work, each measured in processes of its own.

No round holds both modes, so their times are not divided: their speedups over the baseline that
each of them was paired with are, and the baseline cancels. Speedups of the same code differ between
processes by more than their intervals, which hold within one process. With LEAST_PROCESSES or more
of both modes that have a speedup, the ratio has Welch's interval over processes
(`analysis.changes.welch`). With fewer, that spread is unknown: the interval is the worst case of
both rows' intervals, widened by BETWEEN_PROCESSES.
"""

from __future__ import annotations

import math

import numpy as np

from modescope.analysis.changes import welch
from modescope.analysis.changes.verdicts import LEAST_PROCESSES
from modescope.analysis.changes.welch import Change
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.bench.stats import intervals
from modescope.bench.stats.estimates import Estimate

BETWEEN_PROCESSES = 0.03
"""The difference between two processes of the same code that an interval allows for.

Speedups of four compiled rows of the MLP that ran the same code lie within 2.3 % (study of
results/reference/amd-epyc-2-cores; those of the transformer within 0.4 %). Four values span 2.06
standard deviations on average, so 3 % is exceeded by a difference of two in 6 % of pairs.
"""

_WIDENING = Estimate(1.0, 1 / (1 + BETWEEN_PROCESSES), 1 + BETWEEN_PROCESSES)

NEEDED = (
    "run_id", "mode", "dtype", "baseline_mode", "baseline_dtype", "budget_rank", "speedup",
    "speedup_ci_low", "speedup_ci_high", "speedup_process_spread", "speedup_processes",
)  # fmt: skip
"""The columns that are read here."""


def ratio(row: Row, other: Row) -> Estimate | None:
    """How many times as fast as `other` the row is. Above 1: faster.

    Both are equal in SAME_BASELINE. The baseline itself is exactly 1, so a ratio to the baseline or
    of it is paired, and not widened. The ratio of a row to itself is 1 by definition and has no
    interval. None where a speedup is unknown, and for a smoke budget.
    """
    if row["run_id"] == other["run_id"]:
        return Estimate(1.0, None, None)
    if phrases.is_smoke(row) or phrases.is_smoke(other):
        return None
    one, two = _speedup(row), _speedup(other)
    if phrases.is_control(other):
        return one
    if phrases.is_control(row):
        return intervals.quotient(intervals.ONE, two)
    if one is None or two is None:
        return None
    worst_case = intervals.quotient(one, two)
    if is_widened(row, other):
        return intervals.product(worst_case, _WIDENING)
    without_interval = one.low is None or two.low is None
    return worst_case if without_interval else _over_processes(row, other)


def is_widened(row: Row, other: Row) -> bool:
    """Whether one of two rows, neither of them the baseline, has too few processes."""
    return not is_paired(row, other) and processes(row, other) < LEAST_PROCESSES


def is_paired(row: Row, other: Row) -> bool:
    """Whether both were timed in the same rounds: one of them is the baseline."""
    return phrases.is_control(row) or phrases.is_control(other)


def processes(row: Row, other: Row) -> int:
    """The number of processes with a speedup, of the row that has fewer."""
    return int(min(row["speedup_processes"], other["speedup_processes"]))


def _speedup(row: Row) -> Estimate | None:
    return None if row["speedup"] is None else intervals.of_columns(row, "speedup")


def _over_processes(row: Row, other: Row) -> Estimate:
    """Welch's interval for the difference of the means of ln(speedup), as a ratio."""
    change = welch.total(_mean(row), welch.negative(_mean(other)))
    value, low, high = (math.exp(each) for each in (change.value, change.low, change.high))
    return Estimate(value, low, high)


def _mean(row: Row) -> Change:
    """The mean of ln(speedup) over the processes of a row, with its standard error."""
    count = row["speedup_processes"]
    error = row["speedup_process_spread"] / math.sqrt(count)
    mean, freedom = math.log(row["speedup"]), count - 1.0
    return Change(np.asarray(mean), np.asarray(error), np.asarray(freedom))
