"""The table of harnesses. To add one: a function that measures a side, and an entry here."""

from __future__ import annotations

from statistics import fmean, median

from modescope.bench.tools.peers import ours, processes, rules, theirs
from modescope.bench.tools.peers.harness import Criterion, Harness

ASSUMED = "none documented; assumed"
COMPARE_FAIL = "pytest-benchmark's --benchmark-compare-fail; its limit assumed"


def _more_than_a_percent(statistic: rules.TimeStatistic, plural: str, source: str) -> Criterion:
    words = f"{plural} differ by more than 1 %"
    return Criterion(rules.more_than_a_percent(statistic), words, source)


MODESCOPE = Harness(
    name="modescope",
    reports="median of the means of blocks of n calls back to back; with a queue, of the slopes "
    "between blocks of n and 2n; warm cache; waits for the device at both ends of a block; "
    "includes the loop's cost per call",
    clock="pipelined",
    differs="the same measurement twice: the noise floor of this table",
    measure=ours.pipelined,
    figure=median,
    criteria=(
        Criterion(
            rules.interval_excludes_one,
            "95 % interval of the paired speedup excludes 1",
            "shown in modescope's reports, which decide by the verdict",
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
    "at both ends of a block; includes the loop's cost per call",
    clock="pipelined",
    differs="with a queue, its mean includes the start and the end of a block, which cancel in a "
    "slope",
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
    "device; includes the loop's cost per call; garbage collection off",
    clock="pipelined",
    differs="a minimum is the fastest loop, a median the typical one",
    measure=theirs.by_timeit,
    figure=min,
    criteria=(_more_than_a_percent(min, "minima", ASSUMED),),
)

PYTEST_MEAN = Harness(
    name="pytest-benchmark, mean",
    reports="mean of rounds of one call or, below 5 µs, of several; warm cache; never waits for a "
    "device; includes reading the clock and starting the loop; garbage collection on. Its users "
    "choose a limit (such as --benchmark-compare-fail=mean:5%); 1 % is the smallest one that it "
    "accepts",
    clock="latency",
    differs="a mean includes interruptions; each round starts a loop and reads the clock twice",
    measure=theirs.by_pytest_benchmark,
    figure=fmean,
    criteria=(_more_than_a_percent(fmean, "means", COMPARE_FAIL),),
    needs="pytest_benchmark",
)

PYTEST_MIN = Harness(
    name="pytest-benchmark, min",
    reports="minimum of the same rounds; the same limits (min:5%)",
    clock="latency",
    differs="a minimum is the fastest call, a median the typical one",
    measure=theirs.by_pytest_benchmark,
    figure=min,
    criteria=(_more_than_a_percent(min, "minima", COMPARE_FAIL),),
    needs="pytest_benchmark",
)

PYPERF = Harness(
    name="pyperf's way",
    reports=f"mean over {processes.PROCESSES} fresh processes of {processes.VALUES} means of a "
    "loop, after one warm-up each: its plan (20 processes, loops of 0.1 s) scaled to the available "
    "time; warm cache; never waits for a device; includes the loop's cost per call",
    clock="pipelined",
    differs="each process has another memory layout, and a mean includes interruptions",
    measure=processes.fresh_processes,
    figure=fmean,
    criteria=(
        Criterion(rules.student, "Student's t-test of all values, p < 0.05", "pyperf compare_to"),
    ),
)

SINGLE_CALLS = Harness(
    name="single calls, Mann-Whitney",
    reports="mean of calls timed one by one, as in many papers; warm cache; waits for the device "
    "in every call; includes one reading of the clock, but not the loop",
    clock="latency",
    differs="a mean includes interruptions, a median does not",
    measure=theirs.single_calls,
    figure=fmean,
    criteria=(
        Criterion(
            rules.mann_whitney,
            "Mann-Whitney test of all calls, p < 0.05",
            "benchstat (golang.org/x/perf) for means of loops; assumed for single calls",
        ),
    ),
)

DO_BENCH = Harness(
    name="triton do_bench",
    reports="mean of single calls between two events on the device; cold L2 cache, overwritten "
    "before each call; waits once, at the end; excludes the loop, includes the gap between events",
    clock="device",
    differs="its cache is cold and ours warm; if the host is slower than the device, its events "
    "include waiting for launches; its mean includes slow calls, our median does not",
    measure=theirs.by_do_bench,
    figure=fmean,
    criteria=(_more_than_a_percent(fmean, "means", ASSUMED),),
    needs="triton",
    cuda=True,
)

DO_BENCH_CUDAGRAPH = Harness(
    name="triton do_bench_cudagraph",
    reports="mean of ten replays of a CUDA graph of many calls, per call; warm cache; waits "
    "after each replay; excludes launching",
    clock="device",
    differs="kernels in a graph have shorter gaps between them than launched ones; its mean "
    "includes slow replays, our median does not",
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
"""In the order of the tables."""
