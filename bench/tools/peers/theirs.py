"""The other harnesses as documented: a side and seconds in, samples out.

Without `seconds` each uses its default duration.
"""

from __future__ import annotations

import importlib
import inspect
import timeit
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import benchmark

from modescope.bench.devices.devices import Step
from modescope.bench.timing import timers
from modescope.bench.tools.peers.sides import CallTimes
from modescope.bench.tools.testbed.sides import Side

REPEATS = 5  # of `python -m timeit`
SINGLE_CALLS_S = 0.25
DO_BENCH_WARM_UP = 0.2  # 25 of 125 ms: the defaults of triton.testing.do_bench
DO_BENCH_MS = 125.0
GRAPH_REPLAYS = 10  # of triton.testing.do_bench_cudagraph, `rep` milliseconds each
GRAPH_MS = 20.0

PYTEST_BENCHMARK: dict[str, Any] = {
    "disable_gc": False,
    "timer": SimpleNamespace(target=timeit.default_timer),
    "min_rounds": 5,
    "min_time": 5e-6,
    "max_time": 1.0,
    "precision": None,
    "confidence": 0.99,
    "warmup": False,
    "warmup_iterations": 100_000,
    "calibration_precision": 10,
    "cprofile": None,
    "cprofile_loops": None,
    "cprofile_dump": None,
    "disabled": False,
}
"""Defaults of its command line on CPython (pytest_benchmark/plugin.py, pytest_addoption)."""


def by_timeit(of: Side, seconds: float | None = None) -> CallTimes:
    """The means of five loops.

    By default each loop takes 0.2 s or longer (`timeit.Timer.autorange`); a given time is split
    over the five loops, as with `python -m timeit --number`.
    """
    timer = timeit.Timer(of.step)
    if seconds is None:
        calls, _ = timer.autorange()
    else:
        calls = max(1, round(seconds / REPEATS / of.call_s))
    return tuple(loop_s / calls for loop_s in timer.repeat(REPEATS, calls))


def by_torch_timer(of: Side, seconds: float | None = None) -> CallTimes:
    """Means of blocks, from `torch.utils.benchmark.Timer.blocked_autorange`."""
    timer = benchmark.Timer(
        "step()", globals={"step": of.step}, num_threads=torch.get_num_threads()
    )
    if seconds is None:
        return tuple(timer.blocked_autorange().times)
    return tuple(timer.blocked_autorange(min_run_time=seconds).times)


def by_pytest_benchmark(of: Side, seconds: float | None = None) -> CallTimes:
    """Rounds of its `benchmark` fixture, with its own calibration."""
    added: list[Any] = []
    own = {} if seconds is None else {"max_time": seconds}
    fixture = _fixture(add_stats=added.append, **own)
    fixture(of.step)
    (stats,) = added
    return tuple(round_s / stats.iterations for round_s in stats.stats.data)


def _fixture(**options: Any) -> Callable[..., object]:
    """The `benchmark` fixture, outside of pytest; older releases have fewer options."""
    made = importlib.import_module("pytest_benchmark.fixture").BenchmarkFixture
    known = inspect.signature(made).parameters
    outside: dict[str, Any] = {
        "node": SimpleNamespace(name="step", nodeid="step"),
        "logger": SimpleNamespace(debug=_silent),
        "warner": _silent,
        **PYTEST_BENCHMARK,
        **options,
    }
    fixture: Callable[..., object] = made(**{k: v for k, v in outside.items() if k in known})
    return fixture


def _silent(*arguments: object, **options: object) -> None:
    """Discards messages, as output would disturb the measurement."""


def single_calls(of: Side, seconds: float | None = None) -> CallTimes:
    """Single calls, each timed, as many as fit into the time."""
    calls = timers.calls_for(seconds or SINGLE_CALLS_S, of.call_s, 0.0)
    return timers.latency(of.step, of.device, calls).samples_s


def by_do_bench(of: Side, seconds: float | None = None) -> CallTimes:
    """Device time of single calls: all samples of `triton.testing.do_bench`."""
    total_ms = DO_BENCH_MS if seconds is None else seconds * 1e3
    warmup_ms = DO_BENCH_WARM_UP * total_ms
    return by_triton("do_bench", of.step, warmup=warmup_ms, rep=total_ms - warmup_ms)


def by_do_bench_cudagraph(of: Side, seconds: float | None = None) -> CallTimes:
    """Device time per call within a captured graph, one sample per replay."""
    replay_ms = GRAPH_MS if seconds is None else seconds * 1e3 / GRAPH_REPLAYS
    return by_triton("do_bench_cudagraph", of.step, rep=replay_ms)


def by_triton(name: str, step: Step, **options: float) -> CallTimes:
    """All samples that the function `name` of triton.testing takes, with its own defaults."""
    do_bench = getattr(importlib.import_module("triton.testing"), name)
    return tuple(each_ms * 1e-3 for each_ms in do_bench(step, return_mode="all", **options))
