"""Which events belong to which profiled step?

A step is a `record_function` range called `STEP`. The host's operations and launches belong to the
step in whose range they start, on whatever thread of the process (autograd has its own). Work of a
GPU belongs to the step that launched it, found by correlation id: it may run after the range.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from bench.profiling.events import DEVICE_WORK, KERNELS, LAUNCHES, OPERATIONS, RANGES, Event
from bench.profiling.nesting import Operation, operations

STEP = "modescope.step"

IS_LAUNCH = re.compile(r"(cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel)").match
IS_GRAPH_LAUNCH = re.compile(r"(cudaGraphLaunch|cuGraphLaunch)").match

Launches = dict[Hashable, Event]  # by correlation, as runtime and driver may both tell of one
Find = Callable[[Event], int | None]  # position of the step that an event of the host starts in


@dataclass(frozen=True)
class StepEvents:
    """All that belongs to one step."""

    range: Event
    operators: tuple[Operation, ...]  # dispatched
    launches: Launches  # also of copies and fills, and whatever else the CUDA API was asked for
    work: tuple[Event, ...]  # in order of its start: kernels, copies and fills
    kernels: tuple[Event, ...]


def steps(
    events: list[Event], working: Collection[str] | None, left_out: Counter[str]
) -> list[StepEvents]:
    """The steps of a trace, in order, of the process that has the first.

    working: names of the operators that are kernels, on a CPU; None where kernels are a GPU's.
    left_out: is added to, by the reasons `overlapping`, `elsewhere`, `unclaimed` and `lost`.
    """
    ranges = _ranges(events)
    find = _finder(ranges)
    of_host: list[list[Operation]] = [[] for _ in ranges]
    placed, misplaced = operations([e for e in events if e.category in OPERATIONS], working or ())
    left_out["overlapping"] += len(misplaced)
    for operation in placed:
        if (step := find(operation.event)) is not None:
            of_host[step].append(operation)
        else:
            left_out["elsewhere"] += 1
    launches = _launches(events, find, len(ranges), left_out)
    if working is None:
        work = _launched_work(events, launches, left_out)
    else:
        work = [[each.event for each in group if each.kernel] for group in of_host]
    return [
        _step(*parts, on_cpu=working is not None)
        for parts in zip(ranges, of_host, launches, work, strict=True)
    ]


def _step(
    range_: Event, of_host: list[Operation], launches: Launches, work: list[Event], on_cpu: bool
) -> StepEvents:
    in_order = tuple(sorted(work, key=lambda e: e.start_ns))
    kernels = tuple(each for each in in_order if on_cpu or each.category == KERNELS)
    operators = tuple(each for each in of_host if each.dispatched)
    return StepEvents(range_, operators, launches, in_order, kernels)


def _ranges(events: Iterable[Event]) -> list[Event]:
    ranges = [each for each in events if each.category in RANGES and each.name == STEP]
    ranges.sort(key=lambda e: e.start_ns)
    return [each for each in ranges if each.process == ranges[0].process]


def _finder(ranges: list[Event]) -> Find:
    starts_ns = [each.start_ns for each in ranges]

    def find(event: Event) -> int | None:
        step = bisect_right(starts_ns, event.start_ns) - 1
        if step < 0 or event.process != ranges[step].process:
            return None
        return step if event.start_ns < ranges[step].end_ns else None

    return find


def _launches(
    events: list[Event], find: Find, count: int, left_out: Counter[str]
) -> list[Launches]:
    groups: list[Launches] = [{} for _ in range(count)]
    for event in events:
        if event.category not in LAUNCHES:
            continue
        if (step := find(event)) is not None:
            groups[step].setdefault(event.correlation or object(), event)
        else:
            left_out["elsewhere"] += 1
    return groups


def _launched_work(
    events: list[Event], launches: list[Launches], left_out: Counter[str]
) -> list[list[Event]]:
    """Work of the GPU by the step that launched it."""
    processes: dict[int | None, set[str]] = defaultdict(set)
    for event in events:
        if event.category in LAUNCHES and event.correlation:
            processes[event.correlation].add(event.process)
    owners = {key: step for step, group in enumerate(launches) for key in group}
    work: list[list[Event]] = [[] for _ in launches]
    for event in events:
        if event.category not in DEVICE_WORK:
            continue
        if len(processes[event.correlation]) != 1:  # ids are unique within a process only
            left_out["unclaimed"] += 1
        elif event.correlation in owners:
            work[owners[event.correlation]].append(event)
        else:
            left_out["elsewhere"] += 1
    for group, done in zip(launches, work, strict=True):
        left_out["lost"] += _without_work(group, done)
    return work


def _without_work(launches: Launches, work: list[Event]) -> int:
    seen = {each.correlation for each in work}
    return sum(
        bool(IS_LAUNCH(launch.name) or IS_GRAPH_LAUNCH(launch.name)) and key not in seen
        for key, launch in launches.items()
    )
