"""The witness of the self-check: changes of the machine move it, planted changes do not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from modescope.bench.tools.selfcheck.trials import FIXED, race
from modescope.bench.tools.selfcheck.witness import MOST_CHANGE, is_constant
from modescope.bench.tools.testbed.simulated import SimulatedDevice
from modescope.bench.tools.testbed.workloads import Workload

BLOCKS = 60
CALL_S = 250e-6


def blocks(level: Callable[[float], float], sigma: float = 0.002) -> list[float]:
    """Durations around the level at each share of the time."""
    noise = random.Random(7)
    return [level(i / BLOCKS) * noise.lognormvariate(0, sigma) for i in range(BLOCKS)]


@pytest.mark.parametrize(
    ("level", "constant"),
    [
        (lambda share: 1.0, True),
        (lambda share: 1 + MOST_CHANGE / 3 * share, True),
        (lambda share: 1 + 3 * MOST_CHANGE * share, False),
        (lambda share: 1 + 2 * MOST_CHANGE * (1 / 3 < share < 2 / 3), False),  # and back again
        (lambda share: 1 + 0.3 * (int(share * BLOCKS) % 20 == 0), True),
        (lambda share: 1 + 0.3 * (int(share * BLOCKS) % 7 == 0), False),
    ],
    ids=["steady", "hardly", "ramp", "hump", "some spikes", "two speeds"],
)
def test_a_level_is_constant_or_not(level: Callable[[float], float], constant: bool) -> None:
    assert is_constant(blocks(level)) is constant


def test_a_few_blocks_decide_nothing() -> None:
    assert not is_constant([1.0] * 11)


class Simulated(SimulatedDevice):
    """Its steps take simulated time only."""

    torch_device = torch.device("cpu")


def trial(slowdown: Callable[[float], float], own: Callable[[float], float]) -> Any:
    """Two equal steps that take longer by `own`, with a third copy that does not."""
    device: Any = Simulated(queues=False, slowdown=slowdown)

    def call(scale: Callable[[float], float]) -> Workload:
        return Workload(lambda: device.launch(CALL_S * scale(device.now_s), 0.0))

    return race(call(own), call(own), device, FIXED, 0, witness=call(lambda now_s: 1.0))


def test_a_change_of_the_machine_moves_the_witness() -> None:
    result = trial(slowdown=lambda now_s: 1 + 0.1 * now_s, own=lambda now_s: 1.0)
    assert "drift" in result.flags
    assert result.constant_speed is False


def test_a_change_of_the_steps_alone_does_not() -> None:
    result = trial(slowdown=lambda now_s: 1.0, own=lambda now_s: 1 + 0.1 * now_s)
    assert "drift" in result.flags
    assert result.constant_speed is True


def test_without_a_witness_the_speed_is_unknown() -> None:
    device: Any = Simulated(queues=False)
    step = Workload(lambda: device.launch(CALL_S, 0.0))
    assert race(step, step, device, FIXED, 0).constant_speed is None
