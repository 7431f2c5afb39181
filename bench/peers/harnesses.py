"""The table of harnesses. To add one: a function that measures a side, and an entry here."""

from __future__ import annotations

from statistics import fmean, median

from bench.peers import ours, processes, rules, theirs
from bench.peers.harness import Criterion, Harness

ASSUMED = "none documented; assumed"
COMPARE_FAIL = "pytest-benchmark's --benchmark-compare-fail; its limit assumed"


def _more_than_a_percent(statistic: rules.Statistic, plural: str, source: str) -> Criterion:
    words = f"{plural} differ by more than 1 %"
    return Criterion(rules.more_than_a_percent(statistic), words, source)


MODESCOPE = Harness(
    name="modescope",
    reports="median of the slopes between blocks of n and 2n calls back to back; warm cache; "
    "waits at both ends of a block; the loop's cost per call is in it",
    clock="pipelined",
    differs="the same reading twice: the noise floor of this table",
    measure=ours.pipelined,
    figure=median,
    criteria=(
        Criterion(
            rules.interval_excludes_one,
            "95 % interval of the paired speedup excludes 1",
            "modescope's reports show it; its verdict is what they decide by",
            name="interval",
        ),
        Criterion(
            rules.verdict_differs,
            "95 % interval of the paired speedup lies beyond 1 %",
            "modescope's reports",
            name="verdict",
        ),
    ),
    together=ours.compare,
)

TORCH = Harness(
    name="torch.utils.benchmark",
    reports="median of the means of blocks (blocked_autorange); warm cache; waits for the device "
    "at both ends of a block; the loop's cost per call is in it",
    clock="pipelined",
    differs="a block's first and last call are in its mean, and cancel in a slope",
    measure=theirs.by_torch_timer,
    figure=median,
    criteria=(
        Criterion(
            rules.quartiles_apart, "interquartile ranges of the blocks do not overlap", ASSUMED
        ),
    ),
)

TIMEIT = Harness(
    name="timeit",
    reports="minimum of five means of a long loop (autorange); warm cache; never waits for a "
    "device; the loop's cost per call is in it; garbage collection off",
    clock="pipelined",
    differs="a minimum reads the luckiest loop, a median the usual one",
    measure=theirs.by_timeit,
    figure=min,
    criteria=(_more_than_a_percent(min, "minima", ASSUMED),),
)

PYTEST_MEAN = Harness(
    name="pytest-benchmark, mean",
    reports="mean of rounds of one call or, below 5 µs, of several; warm cache; never waits for a "
    "device; reading the clock and the loop's start are in it; garbage collection on. Its users "
    "choose a limit (--benchmark-compare-fail=mean:5% and the like): 1 % is the least above 0 "
    "that it takes",
    clock="latency",
    differs="a mean holds every interruption; each round starts a loop and reads the clock twice",
    measure=theirs.by_pytest_benchmark,
    figure=fmean,
    criteria=(_more_than_a_percent(fmean, "means", COMPARE_FAIL),),
    needs="pytest_benchmark",
)

PYTEST_MIN = Harness(
    name="pytest-benchmark, min",
    reports="minimum of the same rounds; the same limits (min:5%)",
    clock="latency",
    differs="a minimum reads the luckiest call, a median the usual one",
    measure=theirs.by_pytest_benchmark,
    figure=min,
    criteria=(_more_than_a_percent(min, "minima", COMPARE_FAIL),),
    needs="pytest_benchmark",
)

PYPERF = Harness(
    name="pyperf's way",
    reports=f"mean over {processes.PROCESSES} fresh processes of {processes.VALUES} means of a "
    "loop, after one warm-up each: its plan (20 processes, loops of 0.1 s) scaled to the time "
    "there is; warm cache; never waits for a device; the loop's cost per call is in it",
    clock="pipelined",
    differs="other processes have other memory layouts, and a mean holds every interruption",
    measure=processes.fresh_processes,
    figure=fmean,
    criteria=(
        Criterion(rules.student, "Student's t-test of all values, p < 0.05", "pyperf compare_to"),
    ),
)

SINGLE_CALLS = Harness(
    name="single calls, Mann-Whitney",
    reports="mean of a clock around every call, as in many papers; warm cache; waits for the "
    "device in every call; one reading of the clock is in it, the loop is not",
    clock="latency",
    differs="a mean holds every interruption, a median does not",
    measure=theirs.single_calls,
    figure=fmean,
    criteria=(
        Criterion(
            rules.mann_whitney,
            "Mann-Whitney test of all calls, p < 0.05",
            "benchstat (golang.org/x/perf), there of means of loops; of single calls assumed",
        ),
    ),
)

DO_BENCH = Harness(
    name="triton do_bench",
    reports="mean of single calls between two events on the device; cold L2 cache, overwritten "
    "before each call; waits once, at the end; no loop, but the gap between the two events",
    clock="device",
    differs="its cache is cold and ours warm; where the host is slower than the device, it waits "
    "for launches between its events; its mean holds every slow call, our median does not",
    measure=theirs.by_do_bench,
    figure=fmean,
    criteria=(_more_than_a_percent(fmean, "means", ASSUMED),),
    needs="triton",
    cuda=True,
)

DO_BENCH_CUDAGRAPH = Harness(
    name="triton do_bench_cudagraph",
    reports="mean of ten replays of a CUDA graph of many calls, per call; warm cache; waits "
    "after each replay; launching is not in it",
    clock="device",
    differs="kernels of a graph follow each other with shorter gaps than launched ones; its mean "
    "holds every slow replay, our median does not",
    measure=theirs.by_do_bench_cudagraph,
    figure=fmean,
    criteria=(_more_than_a_percent(fmean, "means", ASSUMED),),
    needs="triton",
    cuda=True,
)

HARNESSES = (
    MODESCOPE, TORCH, TIMEIT, PYTEST_MEAN, PYTEST_MIN, PYPERF, SINGLE_CALLS,
    DO_BENCH, DO_BENCH_CUDAGRAPH,
)  # fmt: skip
"""In the order in which tables show them."""
