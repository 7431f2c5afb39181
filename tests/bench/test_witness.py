"""The witness of the self-check: what the machine does by itself, and nothing else, moves it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bench.selfcheck.trials import FIXED, race
from bench.selfcheck.witness import WANDERS, kept_pace
from bench.testbed.simulated import SimulatedDevice
from bench.testbed.workloads import Workload

BLOCKS = 60
CALL_S = 250e-6


def blocks(level: Callable[[float], float], sigma: float = 0.002) -> list[float]:
    """Durations around the level at each share of the time."""
    noise = random.Random(7)
    return [level(i / BLOCKS) * noise.lognormvariate(0, sigma) for i in range(BLOCKS)]


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        (lambda share: 1.0, True),
        (lambda share: 1 + WANDERS / 3 * share, True),
        (lambda share: 1 + 3 * WANDERS * share, False),
        (lambda share: 1 + 2 * WANDERS * (1 / 3 < share < 2 / 3), False),  # and back again
        (lambda share: 1 + 0.3 * (int(share * BLOCKS) % 20 == 0), True),
        (lambda share: 1 + 0.3 * (int(share * BLOCKS) % 7 == 0), False),
    ],
    ids=["steady", "hardly", "ramp", "hump", "some spikes", "two speeds"],
)
def test_a_pace_is_kept_or_not(level: Callable[[float], float], kept: bool) -> None:
    assert kept_pace(blocks(level)) is kept


def test_of_a_few_blocks_nothing_is_said() -> None:
    assert not kept_pace([1.0] * 11)


class Simulated(SimulatedDevice):
    """Its steps take simulated time only."""

    torch_device = torch.device("cpu")


def trial(slowdown: Callable[[float], float], own: Callable[[float], float]) -> Any:
    """Two equal steps that take longer by `own` beside a witness that does not."""
    device: Any = Simulated(queues=False, slowdown=slowdown)

    def call(scale: Callable[[float], float]) -> Workload:
        return Workload(lambda: device.launch(CALL_S * scale(device.now_s), 0.0))

    return race(call(own), call(own), device, FIXED, 0, witness=call(lambda now_s: 1.0))


def test_what_the_machine_does_moves_the_witness() -> None:
    found = trial(slowdown=lambda now_s: 1 + 0.1 * now_s, own=lambda now_s: 1.0)
    assert "drift" in found.flags
    assert found.kept_pace is False


def test_what_only_the_steps_do_does_not() -> None:
    found = trial(slowdown=lambda now_s: 1.0, own=lambda now_s: 1 + 0.1 * now_s)
    assert "drift" in found.flags
    assert found.kept_pace is True


def test_nobody_asked_says_nothing() -> None:
    device: Any = Simulated(queues=False)
    step = Workload(lambda: device.launch(CALL_S, 0.0))
    assert race(step, step, device, FIXED, 0).kept_pace is None
