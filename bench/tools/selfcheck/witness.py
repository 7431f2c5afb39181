"""Detects changes of the machine's speed during a comparison of two steps, by a third step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modescope.bench.devices.devices import Device
from modescope.bench.stats import diagnostics
from modescope.bench.stats.estimates import MIN_ROUNDS
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import SETTLING_CALLS
from modescope.bench.timing.timers import calls_for, latency, reading_cost
from modescope.bench.tools.testbed.workloads import Workload, call_s

MOST_CHANGE = diagnostics.DURATION_DRIFT / 2
"""Largest change at constant speed: 1.5 % of a planted 2 % remain, which still is a drift. With
half of this, 28 of 1,020 rows qualified on a shared machine; DECISIONS.md explains the choice."""

FAR = 0.02
FEW = 0.1
"""Of the blocks; `diagnostics.MODE_SHARE` of a row's rounds make it bimodal."""

THIRDS = 3  # parts of the blocks; `diagnostics.drift` compares the first and the last


class Witness:
    """An undisturbed copy of the compared steps, timed in a block before each of theirs.

    It shows changes of the machine itself, not those planted in the compared steps. Trials are
    selected by its blocks only, never by the rounds under test. Trials in which a tenth of its
    blocks is FAR from the median are left out; such noise is tested on the simulated clock alone.
    """

    def __init__(self, step: Workload, device: Device, block_s: float, seed: int) -> None:
        self._step, self._device = step, device
        self._elsewhere = memory_layout.anew(step.tensors, device, seed)
        self._calls = calls_for(block_s, call_s(step, device), reading_cost(device.clock))
        self._blocks_s: list[float] = []

    def before(self, redraw: memory_layout.Redraw) -> memory_layout.Redraw:
        """`redraw`, preceded by a block of the witness."""

        def both() -> object:
            self._blocks_s.append(self._block_s())
            return redraw()

        return both

    def constant_speed(self) -> bool:
        """Whether its blocks have a constant level (`is_constant`)."""
        return is_constant(self._blocks_s)

    def _block_s(self) -> float:
        held = self._elsewhere()
        for _ in range(SETTLING_CALLS):
            self._step()
        seconds = latency(self._step, self._device, self._calls).median_s
        assert seconds is not None
        del held
        return seconds


def is_constant(blocks_s: Sequence[float]) -> bool:
    """Whether few blocks are FAR from the median and the thirds differ by MOST_CHANGE at most.

    False for fewer than MIN_ROUNDS blocks, which decide nothing.
    """
    if len(blocks_s) < MIN_ROUNDS:
        return False
    logs = np.log(blocks_s)
    far = np.abs(logs - np.median(logs)) > FAR
    levels = [float(np.median(third)) for third in np.array_split(logs, THIRDS)]
    return bool(far.mean() < FEW and max(levels) - min(levels) <= MOST_CHANGE)
