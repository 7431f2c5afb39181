"""The parts of a step on a device of known times, and on this one with planted waits."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from modescope.bench.case import passes
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.columns import StepParts
from modescope.bench.steps.subject import Built
from modescope.bench.steps.training.trainer import FUSED_UNSCALES, Start, Trainer, trainer_of
from tests.helpers.probe_models import smoke, variant
from tests.helpers.simulated import SimulatedDevice
from tests.helpers.trained_models import built, equal, everything, small_mlp, subject

BUDGET = replace(smoke().budget, block_s=10.0, clock_rounds=4, timed_max_s=1e9)
HALF_AMP = variant("fp16", autocast=True)


@dataclass
class Times:
    """(host, device) seconds of each part; `seen` are the names in the order of the calls."""

    device: SimulatedDevice
    seen: list[str]

    def take(self, name: str, host_s: float, device_s: float) -> None:
        self.seen.append(name)
        self.device.launch(host_s, device_s)


class Loss:
    def __init__(self, times: Times) -> None:
        self.times = times

    def backward(self) -> None:
        self.times.take("backward", 0.5, 4.0)


class Optimizer(torch.optim.SGD):
    def __init__(self, times: Times, unscales: bool) -> None:
        super().__init__([torch.zeros(1, requires_grad=True)], lr=1.0)
        self.times, self._step_supports_amp_scaling = times, unscales

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.times.take("zero_grad", 0.125, 0.0)

    def step(self, closure: Any = None) -> None:
        self.times.take("step", 0.25, 1.0)


class Scaler:
    def __init__(self, times: Times) -> None:
        self.times = times

    def scale(self, loss: Loss) -> Loss:
        self.times.take("scale", 0.0625, 0.0)
        return loss

    def unscale_(self, optimizer: Optimizer) -> None:
        self.times.take("unscale", 0.0, 0.5)

    def step(self, optimizer: Optimizer) -> None:
        optimizer.step()

    def update(self) -> None:
        self.times.take("update", 0.0, 0.25)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.times.seen.append("restored")


def simulated(
    queues: bool, scaled: bool = False, unscales: bool = False
) -> tuple[Built, SimulatedDevice, list[str]]:
    device = SimulatedDevice(queues)
    times = Times(device, [])

    def forward() -> Loss:
        times.take("forward", 1.0, 2.0)
        return Loss(times)

    scaler: Any = Scaler(times) if scaled else None
    optimizer = Optimizer(times, unscales)
    trainer = Trainer(optimizer, scaler, forward, Start((torch.zeros(1),)))
    of = subject(small_mlp)
    return Built(of, of.module, trainer.step, trainer.step, trainer), device, times.seen


@pytest.mark.parametrize(("queues", "latency_s"), [(True, 8.125), (False, 8.875)])
def test_the_device_is_synchronised_after_every_part(queues: bool, latency_s: float) -> None:
    """The whole step launches forward's 2 s of work, and the rest while the device works."""
    made, device, seen = simulated(queues)
    found = passes.read_step_parts(made, device, BUDGET, seed=0, latency_s=5.0)
    assert found == StepParts(
        forward_rounds_s=(3.0,) * 4,
        backward_rounds_s=(4.5,) * 4,
        optimizer_rounds_s=(1.375,) * 4,
        parts_latency_rounds_s=(latency_s,) * 4,
        scaler_rounds_s=None,
        parts_note=None,
    )
    assert seen == ["zero_grad", "forward", "backward", "step"] * (len(seen) // 4)


def test_a_scaler_has_its_own_part() -> None:
    made, device, seen = simulated(queues=True, scaled=True)
    found = passes.read_step_parts(made, device, BUDGET, seed=0, latency_s=5.0)
    assert found.scaler_rounds_s == (0.0625 + 0.5 + 0.25,) * 4
    assert found.optimizer_rounds_s == (1.375,) * 4
    assert found.parts_note is None
    calls = ["zero_grad", "forward", "scale", "backward", "unscale", "step", "update"]
    assert seen.count("unscale") == 4 * 2, "in each timed step of the parts, not in whole steps"
    for place in (i for i, name in enumerate(seen) if name == "unscale"):
        assert seen[place - 4 : place + 3] == calls
    assert seen.count("restored") == 2 * 4 + 1, "before each block, and once at the end"


def test_unscaling_by_a_fused_optimizer_counts_as_optimizer_time() -> None:
    made, device, seen = simulated(queues=True, scaled=True, unscales=True)
    found = passes.read_step_parts(made, device, BUDGET, seed=0, latency_s=5.0)
    assert "unscale" not in seen
    assert found.scaler_rounds_s == (0.0625 + 0.25,) * 4
    assert found.parts_note == FUSED_UNSCALES


def test_whole_steps_and_parts_take_turns_in_random_order() -> None:
    """Only the parts unscale by themselves; a block has two timed steps."""
    orders = []
    for seed in (0, 0, 1):
        made, device, seen = simulated(queues=True, scaled=True)
        passes.read_step_parts(made, device, replace(BUDGET, clock_rounds=20), seed, latency_s=5.0)
        blocks = "".join(name[0] for name in seen if name in ("unscale", "restored")).split("r")
        rounds = list(zip(blocks[1:-1:2], blocks[2:-1:2], strict=True))
        assert set(rounds) == {("uu", ""), ("", "uu")}
        orders.append(rounds)
    assert orders[0] == orders[1] != orders[2]


def test_a_captured_step_has_no_parts() -> None:
    made, device, seen = simulated(queues=True)
    found = passes.read_step_parts(
        replace(made, step=lambda: None), device, BUDGET, seed=0, latency_s=5.0
    )
    assert found == StepParts(parts_note=passes.ONE_GRAPH)
    assert seen == []


@pytest.mark.parametrize(("timed_max_s", "rounds"), [(143.0, 2), (141.0, 1), (1.0, 1), (1e9, 4)])
def test_slow_steps_get_fewer_rounds(timed_max_s: float, rounds: int) -> None:
    """A round has two blocks, each of a first step, one to settle and two that are timed: 71 s."""
    made, device, _ = simulated(queues=False)
    budget = replace(BUDGET, timed_max_s=timed_max_s)
    found = passes.read_step_parts(made, device, budget, seed=0, latency_s=9.0)
    assert len(found.forward_rounds_s) == len(found.parts_latency_rounds_s) == rounds


class CpuTime(Cpu):
    """Its clock does not advance while another process has the core."""

    clock = staticmethod(time.thread_time)


def waiting(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


FORWARD_S, BACKWARD_S, OPTIMIZER_S, SCALER_S = 0.004, 0.008, 0.002, 0.001


def test_planted_waits_are_found_in_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single steps of microseconds beside waits of milliseconds."""
    made = built(subject(small_mlp), HALF_AMP)
    trainer = trainer_of(made)
    forward = trainer.forward

    def slow_forward() -> torch.Tensor:
        waiting(FORWARD_S)
        loss: torch.Tensor = forward()
        loss.register_hook(lambda gradient: waiting(BACKWARD_S))
        return loss

    trainer.forward = slow_forward
    trainer.optimizer.register_step_pre_hook(lambda *given: waiting(OPTIMIZER_S))
    update = trainer.scaler.update

    def slow_update() -> None:
        waiting(SCALER_S)
        update()

    monkeypatch.setattr(trainer.scaler, "update", slow_update)
    before = everything(made)
    budget = replace(smoke().budget, timed_max_s=60.0, clock_rounds=6)  # some may be interrupted
    found = passes.read_step_parts(made, CpuTime(), budget, seed=0, latency_s=0.015)
    assert equal(before, everything(made))
    for rounds, planted_s in (
        (found.forward_rounds_s, FORWARD_S),
        (found.backward_rounds_s, BACKWARD_S),
        (found.optimizer_rounds_s, OPTIMIZER_S),
        (found.scaler_rounds_s, SCALER_S),
    ):
        assert planted_s <= min(rounds) < planted_s + 0.001, planted_s
