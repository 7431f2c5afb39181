"""Computes the facts of each profiled step from a trace.

A step is a `record_function` range called `STEP`. The host's operations and launches belong to the
step in whose range they start, on any thread (autograd has its own). Work of a GPU belongs to the
step that launched it, by correlation id, because it may run after the range.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from modescope.bench.passes.profiler import traces
from modescope.bench.passes.profiler.operators import Operation, operations
from modescope.bench.passes.profiler.traces import COPIES, FILLS, STEP, Event, Trace

IS_LAUNCH = re.compile(r"(cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel)").match
IS_GRAPH_LAUNCH = re.compile(r"(cudaGraphLaunch|cuGraphLaunch)").match

Launches = dict[Hashable, Event]  # by correlation, as runtime and driver may both record one
T = TypeVar("T")

HEAVIEST = 10

LOOKUP = "TorchDynamo Cache Lookup"

IS_WRAPPER = re.compile(
    r"Torch-Compiled Region|Pregraph bytecode|AOTDispatcher Runtime Wrapper|CompiledFunction"
).match
"""Ranges of compiled code (torch/_dynamo/eval_frame.py and convert_frame.py,
torch/_functorch/_aot_autograd/runtime_wrappers.py). A compiled graph is a range inside them."""


@dataclass(frozen=True)
class Heavy:
    """A kernel or operator that takes much of a step's time, summed over its calls."""

    name: str
    count: int
    seconds: float


@dataclass(frozen=True)
class StepFacts:
    """The facts of one step. "Work" is kernels, copies and fills on a GPU, and kernels on a CPU.

    A kernel of a CPU is a fused C++ kernel, or the outermost operator that does work of its own. It
    is not the innermost, because aten::addmm and aten::mul call aten::copy_ before they compute.
    """

    span_s: float  # from the start of the range to its end or that of its last work
    guards_s: float | None  # lookups of compiled code; None without any
    compiled_wrapper_s: float | None  # Python around compiled graphs; None without any lookup
    ops_top: int  # operators called by Python, autograd or compiled code
    ops_leaf: int  # operators that call no further operator
    leaf_ops_s: float  # their time, without what other operators compute themselves
    kernels: int
    kernels_s: float  # sum of their times, also where they overlap
    launches: int  # of single kernels, through the CUDA runtime or driver
    graph_launches: int
    lost: int  # launches of both kinds whose work is not in the trace
    copies: int  # cudaMemcpy and the like; copies by kernels or operators count as kernels
    fills: int
    busy_s: float  # time with any work on any stream: the union of its intervals
    launch_delays_s: tuple[float, ...]  # start of each launch to start of its first work, in order
    heaviest_kernels: tuple[Heavy, ...]
    heaviest_ops: tuple[Heavy, ...]  # operators, by their time without operations they call


def read(trace: Trace, working: Collection[str] | None = None) -> tuple[StepFacts, ...]:
    """Returns the facts of all steps of `trace`, in order.

    `working` has the names of the operators that count as kernels on a CPU. None means that the
    kernels are those of a GPU.
    """
    events = traces.intervals(trace)
    ranges = [each for each in events if each.category in traces.RANGES and each.name == STEP]
    ranges.sort(key=lambda e: e.start_ns)
    of_host = [e for e in events if e.category in traces.OPERATIONS]
    placed = _group_by_step(operations(of_host, working or ()), lambda each: each.event, ranges)
    launching = [each for each in events if each.category in traces.LAUNCHES]
    launches: list[Launches] = [{} for _ in ranges]
    for step, group in enumerate(_group_by_step(launching, lambda event: event, ranges)):
        for event in group:
            launches[step].setdefault(event.correlation or object(), event)
    if working is None:
        owners = {key: step for step, group in enumerate(launches) for key in group}
        work: list[list[Event]] = [[] for _ in ranges]
        for event in events:
            if event.category in traces.DEVICE_WORK and event.correlation in owners:
                work[owners[event.correlation]].append(event)
    else:
        work = [[each.event for each in group if each.kernel] for group in placed]
    return tuple(map(_facts, ranges, placed, launches, work))


def _group_by_step(
    items: Iterable[T], event: Callable[[T], Event], ranges: list[Event]
) -> list[list[T]]:
    starts_ns = [each.start_ns for each in ranges]
    groups: list[list[T]] = [[] for _ in ranges]
    for item in items:
        start_ns = event(item).start_ns
        step = bisect_right(starts_ns, start_ns) - 1
        if step >= 0 and start_ns < ranges[step].end_ns:
            groups[step].append(item)
    return groups


def _facts(
    range_: Event, host: Sequence[Operation], launches: Launches, unordered: Iterable[Event]
) -> StepFacts:
    work = sorted(unordered, key=lambda e: e.start_ns)
    operators = [each for each in host if each.dispatched]
    leaves = [each for each in operators if each.leaf]
    kernels = [each for each in work if each.category not in (COPIES, FILLS)]
    categories = Counter(each.category for each in work)
    lookups = [each for each in host if each.event.name == LOOKUP]
    wrappers = [each for each in host if IS_WRAPPER(each.event.name)]
    stretches = _union(work)
    end_ns = max([range_.end_ns, *(end for _, end in stretches)])
    single = [key for key, launch in launches.items() if IS_LAUNCH(launch.name)]
    graphs = [key for key, launch in launches.items() if IS_GRAPH_LAUNCH(launch.name)]
    done = {each.correlation for each in work}
    return StepFacts(
        span_s=_seconds(end_ns - range_.start_ns),
        guards_s=_seconds(sum(each.event.length_ns for each in lookups)) if lookups else None,
        compiled_wrapper_s=_seconds(sum(each.self_ns for each in wrappers)) if lookups else None,
        ops_top=sum(each.top for each in operators),
        ops_leaf=len(leaves),
        leaf_ops_s=_seconds(sum(each.event.length_ns for each in leaves)),
        kernels=len(kernels),
        kernels_s=_seconds(sum(each.length_ns for each in kernels)),
        launches=len(single),
        graph_launches=len(graphs),
        lost=sum(key not in done for key in (*single, *graphs)),
        copies=categories[COPIES],
        fills=categories[FILLS],
        busy_s=_seconds(sum(end - start for start, end in stretches)),
        launch_delays_s=_delays(launches, work),
        heaviest_kernels=_heaviest((each.name, each.length_ns) for each in kernels),
        heaviest_ops=_heaviest((each.event.name, each.self_ns) for each in operators),
    )


def _union(work: Iterable[Event]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for start, end in sorted((each.start_ns, each.end_ns) for each in work):
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((start, end))
    return stretches


def _delays(launches: Launches, work: Iterable[Event]) -> tuple[float, ...]:
    """Returns the seconds from the start of each launch to the start of its first work.

    They do not count from the launch's end, because the first kernel of a replay may run before it.
    """
    first_ns: dict[object, int] = {}
    for event in work:
        first_ns.setdefault(event.correlation, event.start_ns)
    launched = sorted(launches.items(), key=lambda item: item[1].start_ns)
    return tuple(
        _seconds(first_ns[key] - launch.start_ns) for key, launch in launched if key in first_ns
    )


def _heaviest(named_ns: Iterable[tuple[str, int]]) -> tuple[Heavy, ...]:
    counts: Counter[str] = Counter()
    total_ns: Counter[str] = Counter()
    for name, length_ns in named_ns:
        counts[name] += 1
        total_ns[name] += length_ns
    heaviest = total_ns.most_common(HEAVIEST)
    return tuple(Heavy(name, counts[name], _seconds(length_ns)) for name, length_ns in heaviest)


def _seconds(ns: int) -> float:
    return ns / 1e9
