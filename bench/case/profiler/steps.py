"""Assigns events to profiled steps.

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
from typing import TypeVar

from modescope.bench.case.profiler import events as categories
from modescope.bench.case.profiler.events import Event
from modescope.bench.case.profiler.nesting import Operation, operations

STEP = "modescope.step"

IS_LAUNCH = re.compile(r"(cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel)").match
IS_GRAPH_LAUNCH = re.compile(r"(cudaGraphLaunch|cuGraphLaunch)").match

Launches = dict[Hashable, Event]  # by correlation, as runtime and driver may both record one
T = TypeVar("T")


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
    ranges = _ranges(events)
    placed, misplaced = operations(
        [e for e in events if e.category in categories.OPERATIONS], working or ()
    )
    left_out["overlapping"] += len(misplaced)
    of_host = _by_step(placed, lambda operation: operation.event, ranges, left_out)
    launching = [each for each in events if each.category in categories.LAUNCHES]
    launches: list[Launches] = [{} for _ in ranges]
    for step, group in enumerate(_by_step(launching, lambda event: event, ranges, left_out)):
        for event in group:
            launches[step].setdefault(event.correlation or object(), event)
    if working is None:
        work = _launched_work(events, launches, left_out)
    else:
        work = [[each.event for each in group if each.kernel] for group in of_host]
    result = []
    for step, range_ in enumerate(ranges):
        in_order = tuple(sorted(work[step], key=lambda e: e.start_ns))
        kernels = tuple(
            e for e in in_order if working is not None or e.category == categories.KERNELS
        )
        dispatched = tuple(each for each in of_host[step] if each.dispatched)
        others = tuple(each for each in of_host[step] if not each.dispatched)
        result.append(StepEvents(range_, dispatched, others, launches[step], in_order, kernels))
    return result


def _ranges(events: Iterable[Event]) -> list[Event]:
    ranges = [each for each in events if each.category in categories.RANGES and each.name == STEP]
    ranges.sort(key=lambda e: e.start_ns)
    return [each for each in ranges if each.process == ranges[0].process]


def _by_step(
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
        if event.category in categories.LAUNCHES and event.correlation:
            processes[event.correlation].add(event.process)
    owners = {key: step for step, group in enumerate(launches) for key in group}
    work: list[list[Event]] = [[] for _ in launches]
    for event in events:
        if event.category not in categories.DEVICE_WORK:
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
