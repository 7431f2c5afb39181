"""Did the machine itself keep its pace while two steps were compared? A third step is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench import diagnostics, placement
from bench.devices import Device
from bench.rounds import SETTLING_CALLS
from bench.stats import MIN_ROUNDS
from bench.testbed.workloads import Workload, call_s
from bench.timers import calls_for, latency, reading_cost

WANDERS = diagnostics.DURATION_DRIFT / 2
"""As far as a witness tells, 1.5 of a planted 2 % remain: more than a drift. With half of this, 28
of 1,020 rows were left to judge on a shared machine; DECISIONS.md has how it was chosen."""

FAR = 0.02
FEW = 0.1
"""Of the blocks; `diagnostics.MODE_SHARE` of a row's rounds make it bimodal."""

THIRDS = 3  # of the blocks, as `diagnostics.drift` compares the first and the last


class Witness:
    """A copy of the compared steps that nothing disturbs, timed in a block before each of theirs.

    What it shows, the machine did; what only the others show, it did not. Its own blocks choose the
    trials, never the rounds that are judged by them. What is chosen is calm: noise so wide that a
    tenth of the blocks is FAR is left out, and judged on the simulated clock alone.
    """

    def __init__(self, step: Workload, device: Device, block_s: float, seed: int) -> None:
        self._step, self._device = step, device
        self._elsewhere = placement.anew(step.tensors, device, seed)
        self._calls = calls_for(block_s, call_s(step, device), reading_cost(device.clock))
        self._blocks_s: list[float] = []

    def before(self, redraw: placement.Redraw) -> placement.Redraw:
        """`redraw`, and a block of the witness ahead of it."""

        def both() -> object:
            self._blocks_s.append(self._block_s())
            return redraw()

        return both

    def kept_pace(self) -> bool:
        """Whether its blocks say so (`kept_pace`)."""
        return kept_pace(self._blocks_s)

    def _block_s(self) -> float:
        held = self._elsewhere()
        for _ in range(SETTLING_CALLS):
            self._step()
        seconds = latency(self._step, self._device, self._calls).median_s
        assert seconds is not None
        del held
        return seconds


def kept_pace(blocks_s: Sequence[float]) -> bool:
    """Whether they have one level: few far from it, and no third WANDERS away from another.

    False below MIN_ROUNDS blocks, where nothing can be said.
    """
    if len(blocks_s) < MIN_ROUNDS:
        return False
    logs = np.log(blocks_s)
    far = np.abs(logs - np.median(logs)) > FAR
    levels = [float(np.median(third)) for third in np.array_split(logs, THIRDS)]
    return bool(far.mean() < FEW and max(levels) - min(levels) <= WANDERS)
