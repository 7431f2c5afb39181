"""The costs of measuring and of reading results: `make bench`.

In other sessions every body runs once, on small data, without limits: the machine may be busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from modescope.bench.devices.devices import Cpu
from modescope.bench.records import parquet
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record, row
from modescope.bench.records.rows import join
from modescope.bench.timing.timers import latency
from tests.helpers.commands import rows
from tests.helpers.pass_columns import MIB, memory, profiled
from tests.helpers.paths import ROOT
from tests.helpers.studies import MODES, cpu_clocks, not_measured, record, save

pytestmark = pytest.mark.full

CALLS = 1_000
ROUNDS = 240  # with 1,200 single calls: what a small transformer has at budget=standard

Show = Callable[[str], None]
"""Prints a line at the end of the session."""

# Goals for a quiet machine, and the limits of `make bench` for slower ones.
CALL_GOAL_NS, CALL_LIMIT_NS = 120, 200
FIRST_LINE_GOAL_MS, FIRST_LINE_LIMIT_MS = 25, 60
FIXED_COST_GOAL_S, FIXED_COST_LIMIT_S = 0.5, 1.0
LOOSE_LIMIT_S, JOINED_LIMIT_S = 90, 40  # tables of 10,000 rows

# The settings of budget=quick, shortened: the fixed cost of a case does not depend on them.
SWEEP = [
    *("-m", "model=pointwise", "shape=small", "mode=eager", "budget=quick"),
    *("budget.warmup_min_s=0.05", "budget.warmup_max_s=0.2", "budget.timed_max_s=0.2"),
]


def ours(*words: str) -> str:
    """What a program of ours prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip


def test_timed_calls_of_an_empty_step(benchmark: BenchmarkFixture, show: Show) -> None:
    """Two readings of the clock, a synchronise that does nothing, and the loop."""
    timing = benchmark(latency, lambda: None, Cpu(), CALLS)
    assert len(timing.samples_s) == CALLS
    if benchmark.enabled:
        per_call_ns = 1e9 * benchmark.stats.stats.median / CALLS
        show(f"a timed call of an empty step: {per_call_ns:.0f} ns (goal: {CALL_GOAL_NS} ns)")
        assert per_call_ns < CALL_LIMIT_NS


def test_first_line_of_a_child(measuring: bool, show: Show) -> None:
    """From the request to the first line of our code; the forkserver has imported torch."""
    children = 50 if measuring else 2
    _, *later = (
        1e3 * float(line) for line in ours("tests/costs/first_line.py", str(children)).splitlines()
    )
    assert len(later) == children
    assert min(later) > 0
    if measuring:
        show(f"first line of a child: {median(later):.1f} ms (goal: {FIRST_LINE_GOAL_MS} ms)")
        assert median(later) < FIRST_LINE_LIMIT_MS


def test_fixed_cost_of_a_case(measuring: bool, tmp_path: Path, show: Show) -> None:
    """The duration of a case less its warm-up and measurements."""
    sizes, replicates = (10, 5) if measuring else (2, 1)
    sweep = [*SWEEP, f"shape.ops={','.join(str(size) for size in range(1, 1 + sizes))}"]
    ours("run.py", *sweep, f"replicates={replicates}", f"results_dir={tmp_path}")
    fixed_s = [
        row["duration_s"] - row["warmup_s"] - row["timed_s"] - row["clocks_s"]
        for row in rows(tmp_path)
    ]
    assert len(fixed_s) == sizes * replicates
    assert min(fixed_s) > 0
    if measuring:
        show(f"fixed cost of a case: {median(fixed_s):.2f} s (goal: {FIXED_COST_GOAL_S} s)")
        assert median(fixed_s) < FIXED_COST_LIMIT_S


def test_writing_a_record(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    def fresh() -> tuple[tuple[dict[str, Any], Path], dict[str, object]]:
        return (row(record(rounds=ROUNDS)), tmp_path), {}

    benchmark.pedantic(parquet.write, setup=fresh, rounds=200)
    assert len(list(tmp_path.glob("*.parquet"))) == (1 if benchmark.disabled else 200)
    if benchmark.enabled:
        show(f"writing a record: {benchmark.stats.stats.median * 1e3:.1f} ms")


def timed(*words: str) -> tuple[str, float]:
    """What a program of ours prints, and how long it takes."""
    start = time.perf_counter()
    return ours(*words), time.perf_counter() - start


def large(runs: int, cases: int) -> Iterator[Record]:
    """So many runs of so many cases, which differ in mode, model, batch and sequence length."""
    for number in range(runs):
        repetition, case = divmod(number, cases)
        place, preset = divmod(case, len(MODES))
        place, model = divmod(place, 2)
        mode, sizes = list(MODES)[preset], {"batch": 2 ** (place % 8), "seq": 64 * (1 + place // 8)}
        same: dict[str, Any] = {
            **{"model": ("mlp", "transformer")[model], "shape": canonical_json(sizes), **sizes},
            **{"case_id": f"case-{case}", "replicate": repetition % 5},
        }
        if mode.endswith("graph"):
            yield not_measured(mode, "skipped", "a CUDA graph needs an NVIDIA GPU", **same)
            continue
        latency_s = 50e-6 * (1 + number % 97 / 1000) + 1e-6 * sizes["batch"]
        passes = cpu_clocks(latency_s, latency_s / 4) | profiled(12, latency_s / 2)
        held = memory(8 * MIB, MIB * sizes["batch"], setup_peak_bytes=MIB)
        gain = 1 + 0.1 * preset
        yield record(mode, latency_s, gain, rounds=ROUNDS, **(passes | held | same))


def test_reading_a_large_study(measuring: bool, tmp_path: Path, show: Show) -> None:
    runs, cases = (10_000, 550) if measuring else (60, 44)
    folder = save(large(runs, cases), tmp_path / "study", summarised=False)
    loose, loose_s = timed("-m", "analysis.table", str(folder))
    assert sum("×" in line for line in loose.splitlines()) > 30
    join(folder / "rows")
    joined, joined_s = timed("-m", "analysis.table", str(folder))
    assert joined == loose
    page, report_s = timed("-m", "analysis.report", str(folder))
    assert Path(page.strip()).stat().st_size > 10_000
    if measuring:
        show(f"{runs:,} rows: table {loose_s:.0f} s or {joined_s:.0f} s, report {report_s:.0f} s")
        assert loose_s < LOOSE_LIMIT_S
        assert joined_s < JOINED_LIMIT_S
