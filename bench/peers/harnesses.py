"""The table of harnesses. To add one: a function that measures a side, and an entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean, median

from bench.devices import Device
from bench.peers import ours, processes, rules, theirs
from bench.peers.rules import Rule
from bench.peers.sides import Compare, Samples, Side, one_after_the_other


@dataclass(frozen=True)
class Harness:
    """Somebody's way to measure a step and to tell two apart."""

    name: str
    reports: str  # what its figure is: statistic, cache, where it synchronises, the loop's cost
    clock: str  # which of `ours.CLOCKS` asks the same question
    differs: str  # why the two figures are not equal
    rule: str  # how its users call two steps different, in words
    measure: Callable[[Side, float | None], Samples]  # None: as long as it takes by default
    figure: Callable[[Samples], float]
    decide: Rule
    together: Compare | None = None  # where it measures both sides in one go
    needs: str | None = None  # package that is not always installed
    cuda: bool = False  # whether it measures CUDA GPUs only

    @property
    def compare(self) -> Compare:
        """Measures two sides for a given time: in one go, or one after the other."""
        return self.together or one_after_the_other(self.measure)

    def missing(self, device: Device) -> str | None:
        """Why it cannot be used here, or None."""
        if self.cuda and device.type != "cuda":
            return "needs a CUDA GPU"
        if self.needs and find_spec(self.needs) is None:
            return f"needs {self.needs.replace('_', '-')}, which is not installed"
        return None


MODESCOPE = Harness(
    name="modescope",
    reports="median of the slopes between blocks of n and 2n calls back to back; warm cache; "
    "waits at both ends of a block; the loop's cost per call is in it",
    clock="pipelined",
    differs="the same reading twice: the noise floor of this table",
    rule="95 % interval of the paired speedup excludes 1",
    measure=ours.pipelined,
    figure=median,
    decide=rules.interval_excludes_one,
    together=ours.compare,
)

TORCH = Harness(
    name="torch.utils.benchmark",
    reports="median of the means of blocks (blocked_autorange); warm cache; waits for the device "
    "at both ends of a block; the loop's cost per call is in it",
    clock="pipelined",
    differs="a block's first and last call are in its mean, and cancel in a slope",
    rule="interquartile ranges of the blocks do not overlap",
    measure=theirs.by_torch_timer,
    figure=median,
    decide=rules.quartiles_apart,
)

TIMEIT = Harness(
    name="timeit",
    reports="minimum of five means of a long loop (autorange); warm cache; never waits for a "
    "device; the loop's cost per call is in it; garbage collection off",
    clock="pipelined",
    differs="a minimum reads the luckiest loop, a median the usual one",
    rule="minima differ by more than 1 %",
    measure=theirs.by_timeit,
    figure=min,
    decide=rules.more_than_a_percent(min),
)

PYTEST_MEAN = Harness(
    name="pytest-benchmark, mean",
    reports="mean of rounds of one call or, below 5 µs, of several; warm cache; never waits for a "
    "device; reading the clock and the loop's start are in it; garbage collection on. Its users "
    "choose a limit (--benchmark-compare-fail=mean:5% and the like): 1 % is the least above 0 "
    "that it takes",
    clock="latency",
    differs="a mean holds every interruption; each round starts a loop and reads the clock twice",
    rule="means differ by more than 1 %",
    measure=theirs.by_pytest_benchmark,
    figure=fmean,
    decide=rules.more_than_a_percent(fmean),
    needs="pytest_benchmark",
)

PYTEST_MIN = Harness(
    name="pytest-benchmark, min",
    reports="minimum of the same rounds; the same limits (min:5%)",
    clock="latency",
    differs="a minimum reads the luckiest call, a median the usual one",
    rule="minima differ by more than 1 %",
    measure=theirs.by_pytest_benchmark,
    figure=min,
    decide=rules.more_than_a_percent(min),
    needs="pytest_benchmark",
)

PYPERF = Harness(
    name="pyperf's way",
    reports=f"mean over {processes.PROCESSES} fresh processes of {processes.VALUES} means of a "
    "loop, after one warm-up each: its plan (20 processes, loops of 0.1 s) scaled to the time "
    "there is; warm cache; never waits for a device; the loop's cost per call is in it",
    clock="pipelined",
    differs="other processes have other memory layouts, and a mean holds every interruption",
    rule="Student's t-test of all values, p < 0.05",
    measure=processes.fresh_processes,
    figure=fmean,
    decide=rules.student,
)

SINGLE_CALLS = Harness(
    name="single calls, Mann-Whitney",
    reports="mean of a clock around every call, as in many papers; warm cache; waits for the "
    "device in every call; one reading of the clock is in it, the loop is not",
    clock="latency",
    differs="a mean holds every interruption, a median does not",
    rule="Mann-Whitney test of all calls, p < 0.05",
    measure=theirs.single_calls,
    figure=fmean,
    decide=rules.mann_whitney,
)

DO_BENCH = Harness(
    name="triton do_bench",
    reports="median of single calls between two events on the device; cold L2 cache, overwritten "
    "before each call; waits once, at the end; no loop, but the gap between the two events",
    clock="device",
    differs="its cache is cold and ours warm; where the host is slower than the device, it waits "
    "for launches between its events",
    rule="medians differ by more than 1 %",
    measure=theirs.by_do_bench,
    figure=median,
    decide=rules.more_than_a_percent(median),
    needs="triton",
    cuda=True,
)

DO_BENCH_CUDAGRAPH = Harness(
    name="triton do_bench_cudagraph",
    reports="median of ten replays of a CUDA graph of many calls, per call; warm cache; waits "
    "after each replay; launching is not in it",
    clock="device",
    differs="kernels of a graph follow each other with shorter gaps than launched ones",
    rule="medians differ by more than 1 %",
    measure=theirs.by_do_bench_cudagraph,
    figure=median,
    decide=rules.more_than_a_percent(median),
    needs="triton",
    cuda=True,
)

HARNESSES = (
    MODESCOPE, TORCH, TIMEIT, PYTEST_MEAN, PYTEST_MIN, PYPERF, SINGLE_CALLS,
    DO_BENCH, DO_BENCH_CUDAGRAPH,
)  # fmt: skip
"""In the order in which tables show them."""
