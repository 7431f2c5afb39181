"""Measuring as pyperf does: fresh processes, each warmed up once and asked for a few values.

pyperf itself is not used. Its defaults are 20 processes with one warm-up and three values of at
least 0.1 s each (pyperf/_runner.py); here the same plan is scaled to the time there is. Its
calibration, which finds the number of loops in a process of its own, is given to it for free.
"""

from __future__ import annotations

import time

from bench import isolation
from bench.isolation import Progress
from bench.peers.sides import Samples
from bench.testbed.sides import Recipe, Side, ready

PROCESSES = 5
WARM_UPS = 1
VALUES = 3
DEFAULT_S = 1.0
START_TIMEOUT_S = 120.0


def fresh_processes(of: Side, seconds: float | None = None) -> Samples:
    """Three values from each of five processes, pooled as pyperf pools them.

    Raises RuntimeError where a process comes to nothing.
    """
    total_s = seconds or DEFAULT_S
    loops = max(1, round(total_s / PROCESSES / (WARM_UPS + VALUES) / of.call_s))
    return tuple(value for _ in range(PROCESSES) for value in _ask(of.recipe, loops, total_s))


def _ask(recipe: Recipe, loops: int, seconds: float) -> Samples:
    outcome = isolation.call(
        "bench.peers.processes:values", recipe, loops, timeout_s=START_TIMEOUT_S + 100 * seconds
    )
    if outcome.kind != "returned":
        raise RuntimeError(f"a process {outcome.kind}: {outcome.reason}")
    values_s: Samples = outcome.value
    return values_s


def values(progress: Progress, recipe: Recipe, loops: int) -> Samples:
    """What a worker process does: builds the step, then means of `loops` calls.

    Like a step given to pyperf, it does not wait for a device that queues work.
    """
    step = recipe.build(ready(recipe.device))
    means_s = []
    for _ in range(WARM_UPS + VALUES):
        start = time.perf_counter()
        for _ in range(loops):
            step()
        means_s.append((time.perf_counter() - start) / loops)
    return tuple(means_s[WARM_UPS:])
