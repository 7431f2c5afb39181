"""The cost of measuring, apart from the measured work: `make bench`.

In other sessions every body runs once, on small data, without limits: the machine may be busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from modescope.bench.devices.devices import Cpu
from modescope.bench.timing.timers import latency
from tests.helpers.commands import Show, rows
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

FEW = 2
CALLS = 1_000

# Goals for a quiet machine, and the limits of `make bench` for slower ones.
CALL_GOAL_NS, CALL_LIMIT_NS = 120, 200
FIRST_LINE_GOAL_MS, FIRST_LINE_LIMIT_MS = 25, 60
FIXED_COST_GOAL_S, FIXED_COST_LIMIT_S = 0.5, 1.0

# The settings of budget=quick, shortened: the fixed cost of a case does not depend on them.
SWEEP = [
    *("-m", "model=pointwise", "shape=small", "mode=eager", "budget=quick"),
    *("budget.warmup_min_s=0.05", "budget.warmup_max_s=0.2", "budget.timed_max_s=0.2"),
]


def test_timed_calls_of_an_empty_step(benchmark: BenchmarkFixture, show: Show) -> None:
    """Two readings of the clock, a synchronise that does nothing, and the loop."""
    timing = benchmark(latency, lambda: None, Cpu(), CALLS)
    assert len(timing.samples_s) == CALLS
    if benchmark.enabled:
        per_call_ns = 1e9 * benchmark.stats.stats.median / CALLS
        show(
            f"a timed call of an empty step: {per_call_ns:.0f} ns, two readings of the clock "
            f"among them (goal: {CALL_GOAL_NS} ns)"
        )
        assert per_call_ns < CALL_LIMIT_NS


def test_first_line_of_a_child(benchmark: BenchmarkFixture, show: Show) -> None:
    """From the request to the first line of our code; the forkserver has imported torch."""
    children = FEW if benchmark.disabled else 50
    command = [sys.executable, "tests/costs/first_line.py", str(children)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start() -> str:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    _, *later = (1e3 * float(line) for line in benchmark.pedantic(start, rounds=1).splitlines())
    assert len(later) == children
    assert min(later) > 0
    show(
        f"first line of a child's code: {median(later):.1f} ms after asking, at most "
        f"{max(later):.1f} ms ({children} children; goal: {FIRST_LINE_GOAL_MS} ms)"
    )
    if benchmark.enabled:
        assert median(later) < FIRST_LINE_LIMIT_MS


def test_fixed_cost_of_a_case(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """The duration of a case less its warm-up and measurements."""
    sizes, replicates = (FEW, 1) if benchmark.disabled else (10, 5)
    sweep = [
        *SWEEP,
        f"shape.ops={','.join(str(size) for size in range(1, 1 + sizes))}",
        *(f"replicates={replicates}", f"results_dir={tmp_path}"),
    ]

    def measure() -> None:
        subprocess.run(
            [sys.executable, "run.py", *sweep], cwd=ROOT, capture_output=True, check=True
        )

    benchmark.pedantic(measure, rounds=1)
    fixed_s = [
        row["duration_s"] - row["warmup_s"] - row["timed_s"] - row["clocks_s"]
        for row in rows(tmp_path)
    ]
    assert len(fixed_s) == sizes * replicates
    assert min(fixed_s) > 0
    show(
        f"fixed cost of an eager case: {median(fixed_s):.2f} s, at most {max(fixed_s):.2f} s "
        f"({len(fixed_s)} cases; goal: {FIXED_COST_GOAL_S} s)"
    )
    if benchmark.enabled:
        assert median(fixed_s) < FIXED_COST_LIMIT_S
