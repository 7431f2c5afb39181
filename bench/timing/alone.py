"""Times a step's calls without another step's in between, as a program makes them.

On a GPU at its power limit the clock depends on what ran before. A call that alternates with calls
that draw less power is then faster than by itself.
"""

from __future__ import annotations

from modescope.bench.devices import devices
from modescope.bench.devices.devices import Hardware, Step, untimed_s
from modescope.bench.records.columns.timing import Alone
from modescope.bench.records.plans import Budget
from modescope.bench.stats.diagnostics import apart
from modescope.bench.timing.comparison import warm_up
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.timers import calls_for, latency, reading_cost

BLOCK_S = 0.3
"""Length of a block. A GPU's power control reacts within about a tenth of a second."""


def read(
    step: Step,
    device: Hardware,
    budget: Budget,
    per_call_s: float,
    clock_hz: float | None,
    redraw: Redraw,
) -> Alone:
    """Times a block of calls of a warm `step`, and reads the state of `device` during it.

    If the device slows down in it, or its clock is not `clock_hz`, that of earlier rounds, a second
    block is timed once times are steady, or after `budget.warmup_max_s`. `per_call_s`: about how
    long a call takes; `redraw`: see `bench.timing.memory_layout`. All is None on a device without a
    queue, whose clock is not known.
    """
    if not device.queues:
        return Alone()
    alone = _block(step, device, per_call_s, redraw)
    if not alone.throttle_alone and not apart(alone.clock_alone_hz, clock_hz):
        return alone
    placement = redraw()
    warm_up([step], device, budget)
    del placement
    return _block(step, device, per_call_s, redraw)


def _block(step: Step, device: Hardware, per_call_s: float, redraw: Redraw) -> Alone:
    calls = calls_for(BLOCK_S, per_call_s + untimed_s(step), reading_cost(device.clock))
    placement = redraw()
    before = devices.read_conditions(device)
    timing = latency(step, device, calls)
    after = devices.read_conditions(device)
    del placement
    state = devices.device_state(before, after)
    return Alone(timing.median_s, after.clock_hz, state.throttle_reasons)
