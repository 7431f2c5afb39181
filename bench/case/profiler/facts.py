"""Computes the facts of each profiled step from a trace.

A step is a `record_function` range called `STEP`. The host's operations and launches belong to the
step in whose range they start, on any thread of the process (autograd has its own). Work of a GPU
belongs to the step that launched it, by correlation id, because it may run after the range.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from modescope.bench.case.profiler import traces
from modescope.bench.case.profiler.operators import Operation, operations
from modescope.bench.case.profiler.traces import COPIES, FILLS, STEP, Event

IS_LAUNCH = re.compile(r"(cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel)").match
IS_GRAPH_LAUNCH = re.compile(r"(cudaGraphLaunch|cuGraphLaunch)").match

Launches = dict[Hashable, Event]  # by correlation, as runtime and driver may both record one
T = TypeVar("T")

WORKING_OPERATORS = "modescope_working_operators"
"""Key in the trace of a CPU: names of its operators that do work of their own."""

HEAVIEST = 10

LOOKUP = "TorchDynamo Cache Lookup"

IS_WRAPPER = re.compile(
    r"Torch-Compiled Region|Pregraph bytecode|AOTDispatcher Runtime Wrapper|CompiledFunction"
).match
"""Ranges of compiled code (torch/_dynamo/eval_frame.py and convert_frame.py,
torch/_functorch/_aot_autograd/runtime_wrappers.py). A compiled graph is a range inside them."""


@dataclass(frozen=True)
class StepEvents:
    """All events of one step."""

    range: Event
    operators: tuple[Operation, ...]  # dispatched
    ranges: tuple[Operation, ...]  # those that torch records around some
    launches: Launches  # all calls of the CUDA API, also for copies and fills
    work: tuple[Event, ...]  # kernels, copies and fills, in order of their start
    kernels: tuple[Event, ...]


def steps(
    events: list[Event], working: Collection[str] | None, left_out: Counter[str]
) -> list[StepEvents]:
    """The steps of a trace in order, of the process that has the first step.

    working: names of the operators that are kernels, on a CPU; None where kernels are a GPU's.
    left_out: gets counts by reason: `overlapping` (operations that overlap another without
        containing it), `elsewhere` (in no step, or in another process than the first step),
        `unclaimed` (work whose launch is not in the trace, or may belong to another process),
        `lost` (launches of kernels and graphs in a step whose work is not in the trace).
    """
    ranges = [each for each in events if each.category in traces.RANGES and each.name == STEP]
    ranges.sort(key=lambda e: e.start_ns)
    ranges = [each for each in ranges if each.process == ranges[0].process]
    placed, misplaced = operations(
        [e for e in events if e.category in traces.OPERATIONS], working or ()
    )
    left_out["overlapping"] += len(misplaced)
    of_host = _group_by_step(placed, lambda operation: operation.event, ranges, left_out)
    launching = [each for each in events if each.category in traces.LAUNCHES]
    launches: list[Launches] = [{} for _ in ranges]
    for step, group in enumerate(_group_by_step(launching, lambda event: event, ranges, left_out)):
        for event in group:
            launches[step].setdefault(event.correlation or object(), event)
    if working is None:
        work = _launched_work(events, launches, left_out)
    else:
        work = [[each.event for each in group if each.kernel] for group in of_host]
    result = []
    for step, range_ in enumerate(ranges):
        in_order = tuple(sorted(work[step], key=lambda e: e.start_ns))
        kernels = tuple(e for e in in_order if working is not None or e.category == traces.KERNELS)
        dispatched = tuple(each for each in of_host[step] if each.dispatched)
        others = tuple(each for each in of_host[step] if not each.dispatched)
        result.append(StepEvents(range_, dispatched, others, launches[step], in_order, kernels))
    return result


def _group_by_step(
    items: Iterable[T], event: Callable[[T], Event], ranges: list[Event], left_out: Counter[str]
) -> list[list[T]]:
    """The items that start within each range, in its process; the rest is `elsewhere`."""
    starts_ns = [each.start_ns for each in ranges]
    groups: list[list[T]] = [[] for _ in ranges]
    for item in items:
        start_ns, process = event(item).start_ns, event(item).process
        step = bisect_right(starts_ns, start_ns) - 1
        if step < 0 or process != ranges[step].process or start_ns >= ranges[step].end_ns:
            left_out["elsewhere"] += 1
        else:
            groups[step].append(item)
    return groups


def _launched_work(
    events: list[Event], launches: list[Launches], left_out: Counter[str]
) -> list[list[Event]]:
    """Work of the GPU by the step that launched it."""
    processes: dict[int | None, set[str]] = defaultdict(set)
    for event in events:
        if event.category in traces.LAUNCHES and event.correlation:
            processes[event.correlation].add(event.process)
    owners = {key: step for step, group in enumerate(launches) for key in group}
    work: list[list[Event]] = [[] for _ in launches]
    for event in events:
        if event.category not in traces.DEVICE_WORK:
            continue
        if len(processes[event.correlation]) != 1:  # ids are unique within a process only
            left_out["unclaimed"] += 1
        elif event.correlation in owners:
            work[owners[event.correlation]].append(event)
        else:
            left_out["elsewhere"] += 1
    for group, done in zip(launches, work, strict=True):
        claimed = {each.correlation for each in done}
        without = (launch.name for key, launch in group.items() if key not in claimed)
        left_out["lost"] += sum(bool(IS_LAUNCH(n) or IS_GRAPH_LAUNCH(n)) for n in without)
    return work


@dataclass(frozen=True)
class Heavy:
    """A name that takes much of a step's time."""

    name: str
    count: int
    seconds: float


@dataclass(frozen=True)
class StepFacts:
    """One step. "Work" is a GPU's kernels, copies and fills; on a CPU, its kernels.

    A kernel of a CPU is the outermost operator that does work of its own, or a fused C++ kernel;
    not the innermost, because aten::addmm and aten::mul call aten::copy_ before they compute.
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
    copies: int  # cudaMemcpy and the like; copies by kernels or operators count as kernels
    fills: int
    busy_s: float  # time with any work on any stream: the union of its intervals
    launch_delays_s: tuple[float, ...]  # start of each launch to start of its first work, in order
    heaviest_kernels: tuple[Heavy, ...]
    heaviest_ops: tuple[Heavy, ...]  # operators, by their time without operations they call


@dataclass(frozen=True)
class TraceFacts:
    """All steps in order."""

    steps: tuple[StepFacts, ...]
    left_out: Counter[str]
    """Counts of unused events, by reason (`traces.intervals`, `steps`)."""


def read(source: traces.Trace | Path | str, working: Collection[str] | None = None) -> TraceFacts:
    """The facts of a trace, given as a dict or as a .json or .json.gz file.

    working: names of the operators that compute something themselves, not by calling others, for a
        trace of a CPU. Without it, and without the key `WORKING_OPERATORS` in the trace, kernels
        are those of a GPU.
    Raises OSError and ValueError as `traces.load` does.
    """
    trace = source if isinstance(source, dict) else traces.load(source)
    intervals, left_out = traces.intervals(trace)
    working = trace.get(WORKING_OPERATORS) if working is None else working
    return TraceFacts(tuple(map(_facts, steps(intervals, working, left_out))), left_out)


def _facts(step: StepEvents) -> StepFacts:
    leaves = [each for each in step.operators if each.leaf]
    categories = Counter(each.category for each in step.work)
    launches = [launch.name for launch in step.launches.values()]
    lookups = [each for each in step.ranges if each.event.name == LOOKUP]
    wrappers = [each for each in step.ranges if IS_WRAPPER(each.event.name)]
    stretches = _union(step.work)
    end_ns = max([step.range.end_ns, *(end for _, end in stretches)])
    return StepFacts(
        span_s=_seconds(end_ns - step.range.start_ns),
        guards_s=_seconds(sum(each.event.length_ns for each in lookups)) if lookups else None,
        compiled_wrapper_s=_seconds(sum(each.self_ns for each in wrappers)) if lookups else None,
        ops_top=sum(each.top for each in step.operators),
        ops_leaf=len(leaves),
        leaf_ops_s=_seconds(sum(each.event.length_ns for each in leaves)),
        kernels=len(step.kernels),
        kernels_s=_seconds(sum(each.length_ns for each in step.kernels)),
        launches=sum(bool(IS_LAUNCH(name)) for name in launches),
        graph_launches=sum(bool(IS_GRAPH_LAUNCH(name)) for name in launches),
        copies=categories[COPIES],
        fills=categories[FILLS],
        busy_s=_seconds(sum(end - start for start, end in stretches)),
        launch_delays_s=_delays(step),
        heaviest_kernels=_heaviest((each.name, each.length_ns) for each in step.kernels),
        heaviest_ops=_heaviest((each.event.name, each.self_ns) for each in step.operators),
    )


def _union(work: Iterable[Event]) -> list[tuple[int, int]]:
    """Separate stretches of time that are covered by any of the events, in order."""
    stretches: list[tuple[int, int]] = []
    for start, end in sorted((each.start_ns, each.end_ns) for each in work):
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((start, end))
    return stretches


def _delays(step: StepEvents) -> tuple[float, ...]:
    """From the start of each launch, because a replay's first kernel may run before its end."""
    first_ns: dict[object, int] = {}
    for event in step.work:
        first_ns.setdefault(event.correlation, event.start_ns)
    launched = sorted(step.launches.items(), key=lambda item: item[1].start_ns)
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
