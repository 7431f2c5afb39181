"""Measures a model that is called with inputs of several sizes: first calls, later latencies."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence import compiler_counts, observing
from modescope.bench.evidence.watching import Watch
from modescope.bench.model.subject import Built
from modescope.bench.records.columns.compiling import FirstPass
from modescope.bench.records.columns.timing import SizeLatencies
from modescope.bench.records.errors import note_place
from modescope.bench.records.plans import Plan
from modescope.bench.timing import timers

PASS_PATIENCE = 10.0
"""The budget's cap of timing is multiplied by this: passes are long steps, and an interval takes
twelve of each."""

SHARE_OF_TIMEOUT = 40.0
"""The cap is at most the timeout divided by this: a pilot of paired rounds may overrun the cap ten
times, which is then a quarter of the timeout."""

SIZE_PASSES = 5
"""Passes whose calls are timed one by one, those of case and baseline in turns; fewer if they take
longer than SIZES_MAX_S."""

SIZES_MAX_S = 10.0


def first_pass(
    built: Built, device: Hardware, passes: int, watch: Watch
) -> tuple[FirstPass, float]:
    """Calls all sizes in order, `passes` times, and times each call.

    Returns the columns of the first pass, and the seconds of all passes together. `passes` is 2 if
    the compiler records CUDA graphs, because it does so at the second call of a size. `watch` is
    under way, and shows the call at which torch gave up compiling. If a call raises, a note on the
    error names the call.
    """
    order, seconds = built.subject.order, list[float]()
    compiled: list[dict[str, Any]] = []
    gave_up = None
    for number, name in enumerate(order * passes, start=1):
        before, reasons = compiler_counts.read_compiled(), compiler_counts.recompile_reasons()
        with note_place(f"call {number}, {name}"):
            seconds += timers.latency(built.parts[name].step, device, 1).samples_s
        if compiler_counts.read_compiled().since(before).graphs:
            why = next(iter(reasons()), None)
            compiled.append({"call": number, "seconds": seconds[-1], "reason": why})
        if gave_up is None and watch.limit_hits:
            gave_up = number
    first = json.dumps(_rounded(seconds[: len(order)]))
    return FirstPass(first, json.dumps(compiled), gave_up), sum(seconds)


def add_eager_calls(columns: FirstPass, built: Built) -> FirstPass:
    """Notes in `columns` which calls run in eager because torch gave up compiling."""
    if columns.gave_up_at_call is None:
        return columns
    with built.keep_state():
        eager = {name for name, part in built.parts.items() if observing.runs_own_code(part)}
    calls = [number for number, name in enumerate(built.subject.order, 1) if name in eager]
    return replace(columns, eager_calls=json.dumps(calls))


def extend_cap(plan: Plan) -> Plan:
    """Returns `plan` with a longer `timed_max_s`, because a step makes calls of all sizes.

    It is PASS_PATIENCE times as long, but at most the case's timeout ÷ SHARE_OF_TIMEOUT.
    """
    budget = plan.budget
    longer_s = min(PASS_PATIENCE * budget.timed_max_s, plan.timeout_s / SHARE_OF_TIMEOUT)
    return replace(plan, budget=replace(budget, timed_max_s=longer_s))


def size_latencies(candidate: Built, baseline: Built | None, device: Hardware) -> SizeLatencies:
    """Returns the median latency of the case, and of its baseline if any, at each size.

    Sizes are named as the baseline sees them, because only the case may pad its inputs.
    """
    sides = [side for side in (candidate, baseline) if side]
    taken: list[Mapping[str, list[float]]] = [defaultdict(list) for _ in sides]
    names = candidate.subject.order_of_baseline
    start = device.clock()
    for number in range(SIZE_PASSES):
        if number and device.clock() - start > SIZES_MAX_S:
            break
        for call, name in enumerate(names):
            sided = list(zip(sides, taken, strict=True))
            for built, seconds in sided[:: -1 if (number + call) % 2 else 1]:
                step = built.parts[built.subject.order[call]].step
                seconds[name] += timers.latency(step, device, 1).samples_s
    by_size = {name: _rounded(median(seconds[name]) for seconds in taken) for name in taken[0]}
    return SizeLatencies(json.dumps(by_size))


def _rounded(seconds: Iterable[float]) -> list[float]:
    return [round(value, 9) for value in seconds]
