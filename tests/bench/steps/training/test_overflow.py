"""An infinity in one batch: GradScaler skips that step, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.case import runner
from modescope.bench.records.results import Result
from modescope.bench.steps.training import training_check
from modescope.bench.steps.training.trainer import Trainer, trainer_of
from modescope.bench.steps.training.training_check import Overflow
from tests.helpers import trained_models
from tests.helpers.probe_models import silent, smoke, variant
from tests.helpers.trained_models import (
    Build,
    built,
    equal,
    everything,
    small_mlp,
    subject,
    with_step,
)

pytestmark = pytest.mark.usefixtures("restored_settings")

HALF_AMP = variant("fp16", autocast=True)
SKIPPED = Overflow(True, None)
UNKNOWN = Overflow(None, None)


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", ["small_mlp", "normalised", "looked_up"])
def test_an_overflowing_step_is_skipped_and_leaves_no_trace(
    name: str, optimizer: str, implementation: str
) -> None:
    of = subject(trained_models.LEARNERS[name])
    made = built(of, HALF_AMP, optimizer=optimizer, implementation=implementation)
    before, scale = everything(made), trainer_of(made).scaler.get_scale()
    assert training_check.plant_overflow(made) == SKIPPED
    assert equal(before, everything(made))
    assert trainer_of(made).scaler.get_scale() == scale == trainer_of(made).start.scale


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_other_precisions_can_be_scaled_too(dtype: str) -> None:
    assert (
        training_check.plant_overflow(built(subject(small_mlp), variant(dtype), scaler=True))
        == SKIPPED
    )


def lets_through(trainer: Trainer) -> Tensor:
    trainer.clear()
    loss: Tensor = trainer.forward()
    trainer.backward(loss)
    trainer.scaler.unscale_(trainer.optimizer)
    trainer.optimizer.step()
    trainer.scaler.update()
    return loss


def keeps_the_scale(trainer: Trainer) -> Tensor:
    scale = trainer.scaler.get_scale()
    loss = trainer.step()
    trainer.scaler.update(scale)  # after one that lowered it
    return loss


def counts_skipped_steps(trainer: Trainer) -> Tensor:
    """Like an optimizer that learns of the overflow too late: state moved, parameters did not."""
    loss = trainer.step()
    for tensor in trainer.tensors():
        tensor += 1
    return loss


class SkipsTheNext:
    def __init__(self) -> None:
        self.skipped = False

    def __call__(self, trainer: Trainer) -> Tensor:
        scale, before = trainer.scaler.get_scale(), [p.clone() for p in trainer.trained]
        loss = trainer.step()
        if self.skipped:
            with torch.no_grad():
                for parameter, value in zip(trainer.trained, before, strict=True):
                    parameter.copy_(value)
        self.skipped = trainer.scaler.get_scale() < scale
        return loss


FAULTS: dict[str, tuple[str, Callable[[], Callable[[Trainer], Tensor]], str]] = {
    "let through": (
        "sgd",
        lambda: lets_through,
        "the trained state changed in the step that overflows",
    ),
    "scale kept": ("sgd", lambda: keeps_the_scale, "the loss scale went from 16384 to 16384"),
    "state moved": ("adamw", lambda: counts_skipped_steps, "the trained state changed in the"),
    "next one, too": ("sgd", SkipsTheNext, "the trained state did not change in the next step"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_scaler_is_found(name: str) -> None:
    optimizer, step, words = FAULTS[name]
    made = with_step(built(subject(small_mlp), HALF_AMP, optimizer=optimizer), step())
    found = training_check.plant_overflow(made)
    assert found.skipped is False
    assert words in found.reason


def clamped() -> tuple[nn.Module, tuple[Tensor, ...]]:
    class Clamped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            loss: Tensor = self.linear(x.clamp(-1, 1)).square().mean()
            return loss

    return Clamped(), (torch.randn(2, 4),)


def of_numbers() -> tuple[nn.Module, tuple[Tensor, ...]]:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            loss: Tensor = self.table(x).square().mean()
            return loss

    return Mean(), (torch.arange(4),)


@pytest.mark.parametrize(
    ("build", "loss", "lr"),
    [(clamped, "output", 1e-3), (of_numbers, "output", 1e-3), (small_mlp, "mse", 1e-12)],
    ids=["clamped", "no floats", "nothing moves"],
)
def test_without_an_overflow_or_an_update_the_result_is_unknown(
    build: Build, loss: str, lr: float
) -> None:
    made = built(subject(build, loss), HALF_AMP, loss=loss, lr=lr)
    assert training_check.plant_overflow(made) == UNKNOWN


def test_an_overflow_can_be_planted_in_inputs_of_any_layout() -> None:
    of = subject(lambda: (nn.Linear(3, 2), (torch.randn(3, 4).t(),)))
    assert training_check.plant_overflow(built(of, HALF_AMP)) == SKIPPED


# In a record


def run(build: Build, **options: object) -> Result:
    return runner.run(silent, trained_models.case(build, HALF_AMP, **options), smoke())


@pytest.mark.usefixtures("as_in_a_child")
def test_the_record_has_the_result_of_the_overflow_check() -> None:
    result = run(small_mlp)
    assert (result.status, result.reason) == ("ok", None)
    assert result.findings.overflow_skipped is True
    assert result.findings.loss_scale == 2.0**14
    unscaled = run(small_mlp, scaler=False)
    assert unscaled.status == "ok"
    assert unscaled.findings.overflow_skipped is unscaled.findings.loss_scale is None


@pytest.mark.usefixtures("as_in_a_child")
def test_a_scaler_that_applies_an_overflow_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def through(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        scaler.unscale_(optimizer)
        optimizer.step()

    monkeypatch.setattr(torch.amp.GradScaler, "step", through)
    result = run(small_mlp)
    assert result.status == "wrong_result"
    assert "did not skip a step" in result.reason
    assert result.findings.overflow_skipped is False
    assert result.findings.latency_rounds_s is None
