"""A step's parts, its state, and restoring its start."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence.first_call import enter
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.losses import trainable
from modescope.bench.modes.phases import TrainingPhase
from modescope.bench.modes.trainer import (
    FIRST_SCALE,
    HEADROOM,
    MOST_HALVINGS,
    RECOMPUTING,
    Trainer,
    optimizer,
    start_of,
    trained_parameters,
    trainer_of,
    unscales,
)
from modescope.bench.records.cases import Training, Variant
from modescope.bench.records.optimizers import OPTIMIZERS
from modescope.bench.timing import memory_layout
from tests.helpers import trained_models
from tests.helpers.probe_models import Applies, smoke, variant
from tests.helpers.trained_models import (
    EAGER,
    GRAPH,
    LEARNERS,
    built,
    equal,
    everything,
    parameters,
    small_mlp,
    subject,
)

HALF_AMP = variant("fp16", autocast=True)


@pytest.mark.parametrize(
    ("options", "mode", "made"),
    [
        ({}, EAGER, {"fused": None, "foreach": None, "capturable": False}),
        ({"implementation": "for_loop"}, EAGER, {"fused": False, "foreach": False}),
        ({"implementation": "foreach"}, EAGER, {"fused": None, "foreach": True}),
        ({"implementation": "fused", "lr": 0.5}, EAGER, {"fused": True, "lr": 0.5}),
        ({"capturable": True}, EAGER, {"capturable": True}),
        ({}, GRAPH, {"capturable": True}),
        ({"capture": "forward_backward"}, GRAPH, {"capturable": False}),
    ],
)
def test_the_optimizer_has_the_chosen_implementation_and_is_capturable_where_it_is_captured(
    options: dict[str, Any], mode: Variant, made: dict[str, Any]
) -> None:
    found = optimizer(nn.Linear(2, 2).parameters(), Training("adamw", **options), mode.mode)
    assert {key: found.param_groups[0][key] for key in made} == made
    assert unscales(found) == bool(made.get("fused"))


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_table_of_optimizers_describes_torch(name: str) -> None:
    """torch has the option capturable only for optimizers that count steps."""
    weight = nn.Parameter(torch.zeros(2))
    made = optimizer([weight], Training(name), EAGER.mode)
    assert type(made) is {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[name]
    assert OPTIMIZERS[name].counts_steps == ("capturable" in made.param_groups[0])
    weight.grad = torch.tensor([1.0, 1e-4])
    made.step()
    large, small = weight.detach().abs().tolist()
    assert OPTIMIZERS[name].follows_size == (small < 0.01 * large)


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_a_restored_optimizer_behaves_like_a_new_one(optimizer: str) -> None:
    """Its state of zeros equals that of a new one."""
    used, new = (built(subject(small_mlp), optimizer=optimizer) for _ in range(2))
    trainer_of(new).optimizer.state.clear()
    for _ in range(5):
        used.step()
    used.state.restore()
    for _ in range(3):
        used.step()
        new.step()
    assert equal(everything(used), everything(new))


def test_a_step_equals_a_hand_written_training_step() -> None:
    log: list[str] = []

    class Optimizer(torch.optim.SGD):
        def zero_grad(self, set_to_none: bool = True) -> None:
            log.append(f"zero_grad(set_to_none={set_to_none})")
            super().zero_grad(set_to_none)

        def step(self, closure: Any = None) -> None:
            log.append("step")
            super().step(closure)

    weight = nn.Parameter(torch.ones(()))

    def forward() -> torch.Tensor:
        log.append(f"forward, gradient {weight.grad}")
        return weight * 3

    trainer = Trainer(Optimizer([weight], lr=0.5), None, forward, start_of(nn.Identity()))
    assert trainer.step().item() == 3
    assert weight.item() == 1 - 0.5 * 3
    trainer.step()
    assert log == ["zero_grad(set_to_none=True)", "forward, gradient None", "step"] * 2


@pytest.mark.parametrize(
    ("factor", "largest"),
    [(1.0, FIRST_SCALE / 2), (math.inf, FIRST_SCALE / 2**MOST_HALVINGS)],
    ids=["overflows at the first scale", "always overflows"],
)
def test_the_scale_settles_with_a_margin_to_overflow(factor: float, largest: float) -> None:
    """The scaled gradient passes through fp16, which holds up to 65504."""

    def loss(weight: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (weight * factor).half().float().sum() + 0 * x.sum()}

    of = trainable(Subject(Applies(loss), Inputs((torch.randn(2, 4),), {})), "output", 0)
    phase = TrainingPhase(Training(loss="output", lr=0.1))
    made = modes.build(of, HALF_AMP, True, Cpu(), phase)
    trainer = trainer_of(made)
    trainer.adjust_start(made.step)
    assert trainer.start.scale == trainer.scaler.get_scale() == largest / HEADROOM
    before, new = parameters(made), GradScaler("cpu", init_scale=largest / HEADROOM)
    made.step()
    assert equal(before, parameters(made)) == math.isinf(factor)
    assert trainer.scaler.state_dict() != new.state_dict()
    trainer.restore()
    assert trainer.scaler.state_dict() == new.state_dict()


@pytest.mark.parametrize("checkpoint", RECOMPUTING)
@pytest.mark.parametrize("name", ["small_transformer", "normalised"])
def test_recomputed_activations_change_memory_only(name: str, checkpoint: str) -> None:
    of = subject(LEARNERS[name])
    made = built(of, checkpoint=checkpoint)
    assert list(trained_parameters(made.subject.module)) == list(trained_parameters(of.module))
    usual = trained_models.check_of(of).examine(built(of), EAGER)
    assert trained_models.check_of(of).examine(made, EAGER) == usual


def test_children_in_lists_are_recomputed_one_by_one() -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.named = nn.ModuleDict({"last": nn.Linear(4, 4)})
            self.empty = None

        def forward(self, x: torch.Tensor) -> Any:
            return self.named["last"](self.layers[1](self.layers[0](x)).tanh())

    of = subject(lambda: (Stack(), (torch.randn(2, 4),)))
    made = built(of, checkpoint="children")
    wrapped = [type(each).__name__ for each in made.subject.module.modules()]
    assert wrapped.count("CheckpointWrapper") == 3
    assert trained_models.check_of(of).examine(made, EAGER).error < 1e-4


def test_case_and_baseline_start_alike_although_first_calls_train() -> None:
    asked = trained_models.case(small_mlp, HALF_AMP, optimizer="adamw")
    of = subject(small_mlp)
    given = [weight.detach() for weight in of.module.parameters()]
    for each in (asked.variant, asked.baseline):
        made = enter(of, each, asked, Cpu(), smoke()).built
        assert equal(parameters(made), given)
        assert equal(list(trainer_of(made).start.values), given)
        assert equal(made.subject.inputs.tensors(), of.inputs.tensors())


def test_an_optimizer_works_after_its_memory_was_moved() -> None:
    moved, still = (built(subject(small_mlp), optimizer="adamw") for _ in range(2))
    redraw = memory_layout.make_redraw(moved.tensors(), Cpu(), 0)
    for _ in range(4):
        held = redraw()
        moved.step()
        still.step()
        del held
    assert equal(everything(moved), everything(still))
