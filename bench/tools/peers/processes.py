"""Measures as pyperf does: fresh processes, each with one warm-up before a few values.

pyperf itself is not used. Its defaults are 20 processes with one warm-up and three values of at
least 0.1 s each (pyperf/_runner.py); here the same plan is scaled to the available time. Its
calibration of the number of loops, in a separate process, is not charged to it.
"""

from __future__ import annotations

import time

from modescope.bench.records.progress import Progress
from modescope.bench.sweep.process import isolation
from modescope.bench.tools.peers.sides import CallTimes
from modescope.bench.tools.testbed.sides import Recipe, Side, ready

PROCESSES = 5
WARM_UPS = 1
VALUES = 3
DEFAULT_S = 1.0
START_TIMEOUT_S = 120.0


def fresh_processes(of: Side, seconds: float | None = None) -> CallTimes:
    """Three values from each of five processes, pooled as pyperf pools them.

    Raises RuntimeError if a process fails.
    """
    total_s = seconds or DEFAULT_S
    loops = max(1, round(total_s / PROCESSES / (WARM_UPS + VALUES) / of.call_s))
    return tuple(
        value for _ in range(PROCESSES) for value in _one_process(of.recipe, loops, total_s)
    )


def _one_process(recipe: Recipe, loops: int, seconds: float) -> CallTimes:
    outcome = isolation.call(
        "modescope.bench.tools.peers.processes:values",
        recipe,
        loops,
        timeout_s=START_TIMEOUT_S + 100 * seconds,
    )
    if outcome.kind != "returned":
        raise RuntimeError(f"a process {outcome.kind}: {outcome.reason}")
    values_s: CallTimes = outcome.value
    return values_s


def values(progress: Progress, recipe: Recipe, loops: int) -> CallTimes:
    """Runs in a worker process: builds the step and returns means of `loops` calls.

    As with pyperf, the step does not wait for a device that queues work.
    """
    step = recipe.build(ready(recipe.device))
    means_s = []
    for _ in range(WARM_UPS + VALUES):
        start = time.perf_counter()
        for _ in range(loops):
            step()
        means_s.append((time.perf_counter() - start) / loops)
    return tuple(means_s[WARM_UPS:])
