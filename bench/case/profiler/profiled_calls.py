"""Makes profiled calls in turns with calls that are not recorded, so that both can be compared.

The profiler runs throughout. Starting it empties the caches: the kernels of the first call after a
start took 10 % longer, those of the second 6 %. Recording is switched off for the calls between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import torch
from torch._C._autograd import _enable_record_function

from modescope.bench.case.profiler.traces import STEP
from modescope.bench.devices.devices import Device, Step, prepare_call
from modescope.bench.timing import pace

MOST_TURNS = 24  # as many as rounds of clocks with budget=quick
QUEUED_STEPS = 5  # of a device that queues work, whose calls between are not compared
LONGEST_S = 1.0  # of all turns; of slow steps there are fewer
CALLS_PER_TURN = 3  # one profiled, one untimed after the switch, one timed


@dataclass(frozen=True)
class ProfiledCalls:
    """What was measured of each profiled call; the trace has the rest."""

    latencies_s: tuple[float, ...]  # under the profiler
    paces_s: tuple[float, ...]  # beside it: mean of before and after (`bench.timing.pace`)
    unrecorded_s: tuple[float, ...] | None  # the same call beside it; None where the device queues


def take(step: Step, device: Device, expected_s: float) -> ProfiledCalls:
    """Profiles `step` several times; fewer if `expected_s` per call is long (0.0: unknown).

    To be called while a profiler runs. Each profiled call is a range called `STEP`, is waited for,
    and stands between two calls that are not recorded. A device that queues has no unrecorded
    calls: its work is traced apart from the host's, by a tracer that cannot be switched off in
    between.
    """
    latencies_s, paces_s, alone_s = list[float](), list[float](), list[float]()

    def look_beside() -> None:
        paces_s.append(median(pace.time_of(pace.work, device, pace.CALLS).samples_s))
        if not device.queues:
            alone_s.append(_time_unrecorded(step, device))

    most, calls = (QUEUED_STEPS, 1) if device.queues else (MOST_TURNS, CALLS_PER_TURN)
    turns = max(1, min(most, int(LONGEST_S / (calls * expected_s)))) if expected_s > 0 else most
    look_beside()
    for _ in range(turns):
        latencies_s.append(_time_in_range(step, device))
        look_beside()
    return ProfiledCalls(tuple(latencies_s), _means(paces_s), _means(alone_s) or None)


def _time_unrecorded(step: Step, device: Device) -> float:
    """The seconds of a call of which the running profiler records nothing.

    So it costs no more than without a profiler.
    """
    _enable_record_function(False)
    try:
        step()
        call = prepare_call(step)
        start = device.clock()
        call()
        return device.clock() - start
    finally:
        _enable_record_function(True)


def _time_in_range(step: Step, device: Device) -> float:
    call = prepare_call(step)
    device.synchronize()
    start = device.clock()
    with torch.profiler.record_function(STEP):
        call()
    device.synchronize()
    return device.clock() - start


def _means(values: Sequence[float]) -> tuple[float, ...]:
    return tuple((before + after) / 2 for before, after in pairwise(values))
