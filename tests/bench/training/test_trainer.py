"""A step's parts, its state, and that it can start again from where it started."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from bench import modes, placement, race
from bench.devices import Cpu
from bench.entrant import Entrant, enter
from bench.records import Training, UsageError, Variant
from bench.subject import Inputs, Subject
from bench.training import exam, optimizers
from bench.training.choices import OPTIMIZERS
from bench.training.losses import trainable
from bench.training.recomputing import RECOMPUTING, trained
from bench.training.trainer import FIRST_SCALE, HEADROOM, MOST_HALVINGS, Trainer, start_of
from models import mlp
from tests import learners
from tests.learners import (
    EAGER,
    GRAPH,
    LEARNERS,
    Graphs,
    built,
    equal,
    everything,
    parameters,
    small_mlp,
    subject,
)
from tests.probes import EAGER as EAGER_MODE
from tests.probes import Applies, smoke, variant

HALF_AMP = variant("fp16", autocast=True)


# Optimizers


@pytest.mark.parametrize(
    ("implementation", "fused", "foreach"),
    [
        ("default", None, None),
        ("for_loop", False, False),
        ("foreach", None, True),
        ("fused", True, None),
    ],
)
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_implementation_is_asked_for(
    name: str, implementation: str, fused: bool | None, foreach: bool | None
) -> None:
    asked = Training(name, implementation, lr=0.5)
    made = optimizers.optimizer(nn.Linear(2, 2).parameters(), asked, EAGER_MODE)
    assert type(made) is {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[name]
    (group,) = made.param_groups
    assert (group["fused"], group["foreach"], group["lr"]) == (fused, foreach, 0.5)
    assert optimizers.unscales(made) == (implementation == "fused")


@pytest.mark.parametrize(
    ("mode", "options", "capturable"),
    [
        (EAGER, {}, False),
        (EAGER, {"capturable": True}, True),
        (GRAPH, {}, True),
        (GRAPH, {"capture": "forward_backward"}, False),
        (GRAPH, {"capture": "forward_backward", "capturable": True}, True),
    ],
)
def test_adamw_is_capturable_where_it_is_captured(
    mode: Variant, options: dict[str, Any], capturable: bool
) -> None:
    asked = Training("adamw", **options)
    made = optimizers.optimizer(nn.Linear(2, 2).parameters(), asked, mode.mode)
    assert made.param_groups[0]["capturable"] is capturable


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_what_is_said_of_an_optimizer_is_so(name: str) -> None:
    """torch has the option to be capturable for those alone that count their steps."""
    weight = nn.Parameter(torch.zeros(2))
    made = optimizers.optimizer([weight], Training(name), EAGER_MODE)
    assert OPTIMIZERS[name].counts_steps == ("capturable" in made.param_groups[0])
    weight.grad = torch.tensor([1.0, 1e-4])
    made.step()
    large, small = weight.detach().abs().tolist()
    assert OPTIMIZERS[name].follows_size == (small < 0.01 * large)


def test_only_what_requires_a_gradient_is_optimised() -> None:
    made = built(subject(learners.frozen))
    assert len(made.trainer.trained) == 3
    assert len(made.trainer.start.values) == 3


# Start and restore


@pytest.mark.parametrize("asked", [EAGER, HALF_AMP], ids=["fp32", "fp16"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("implementation", ["default", "foreach", "fused"])
def test_restored_training_is_the_same_again(
    optimizer: str, implementation: str, asked: Variant
) -> None:
    made = built(subject(small_mlp), asked, optimizer=optimizer, implementation=implementation)
    before = everything(made)

    def course() -> list[float]:
        return [torch.as_tensor(made.step()).item() for _ in range(4)]

    with made.kept():
        first = course()
        after = everything(made)
        made.restore()
        assert equal(everything(made), before)
        assert course() == first
        assert equal(everything(made), after)
    assert equal(everything(made), before)
    assert first[3] < first[0]  # it learns


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_a_restored_optimizer_is_as_good_as_new(optimizer: str) -> None:
    """Its state of zeros is what a new one begins with."""
    of = subject(small_mlp)
    used, new = (built(of, optimizer=optimizer) for _ in range(2))
    new.trainer.optimizer.state.clear()
    for _ in range(5):
        used.step()
    used.restore()
    for _ in range(3):
        used.step()
        new.step()
    assert equal(parameters(used), parameters(new))
    assert equal(used.trainer.state(), new.trainer.state())


def test_a_restore_writes_where_things_are() -> None:
    """Compiled code and captured graphs know the addresses."""
    made = built(subject(small_mlp), optimizer="adamw")
    things = [*made.trainer.trained, *made.trainer.state()]
    addresses = [each.data_ptr() for each in things]
    made.step()
    made.restore()
    assert [each.data_ptr() for each in (*made.trainer.trained, *made.trainer.state())] == addresses


def test_a_start_is_a_copy_and_may_move_to_the_host() -> None:
    module = nn.Linear(2, 2)
    start = start_of(module)
    with torch.no_grad():
        module.weight.zero_()
    assert start.values[0].any()
    assert not any(value.requires_grad for value in start.values)
    assert [value.device.type for value in start.on_host().values] == ["cpu", "cpu"]


def test_buffers_are_kept_but_training_is_restored_in_any_nesting() -> None:
    made = built(subject(learners.normalised))
    before = everything(made)
    with made.kept():
        made.step()
        with made.kept():
            made.step()
        made.step()
        assert not equal(everything(made), before)
    assert equal(everything(made), before)


def test_what_fails_is_put_back_too() -> None:
    made = built(subject(small_mlp))
    before = everything(made)

    def fails() -> None:
        with made.kept():
            made.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert equal(everything(made), before)


def test_a_step_is_what_a_user_writes() -> None:
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


# The loss scale


def scaled_by(factor: float) -> modes.Built:
    """A loss whose scaled gradient is `factor` times the scale; fp16 holds up to 65504."""

    def loss(weight: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
        half = (weight * factor).half()  # its gradient passes through fp16
        return {"loss": half.float().sum() + 0 * x.sum()}

    torch.manual_seed(0)
    of = Subject(Applies(loss), Inputs((torch.randn(2, 4),), {}))
    asked = Training(loss="output", lr=0.1)
    return modes.build(trainable(of, "output", 0), HALF_AMP, True, Cpu(), asked)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 100.0])
def test_the_scale_settles_where_gradients_fit_with_room_to_spare(factor: float) -> None:
    made = scaled_by(factor)
    trainer = made.trainer
    trainer.settle_scale(made.step)
    largest = FIRST_SCALE
    while largest > 65504:
        largest /= 2  # the upstream gradient is 1 x scale, in fp16
    assert trainer.start.scale == largest / HEADROOM
    assert trainer.scaler.get_scale() == trainer.start.scale
    before = parameters(made)
    made.step()
    assert not equal(before, parameters(made))
    assert trainer.scaler.get_scale() == trainer.start.scale


def test_a_scale_that_never_settles_is_given_up() -> None:
    made = scaled_by(math.inf)
    made.trainer.settle_scale(made.step)
    assert made.trainer.start.scale == FIRST_SCALE / 2**MOST_HALVINGS / HEADROOM


def test_without_a_scaler_there_is_nothing_to_settle() -> None:
    made = built(subject(small_mlp))
    made.trainer.settle_scale(lambda: pytest.fail("a step was made"))


# Steps of modes


def test_the_whole_step_is_captured_and_its_gradients_are_known() -> None:
    device = Graphs()
    made = modes.build(subject(small_mlp), GRAPH, True, device, Training())
    assert len(device.captured) == 1
    assert made.live == made.trainer.step != made.step
    assert not made.graphed
    assert [gradient.shape for gradient in made.trainer.captured] == [
        each.shape for each in made.trainer.trained
    ]


@pytest.mark.parametrize("autocast", [True, False])
def test_forward_and_backward_alone_can_be_graphed(autocast: bool) -> None:
    """The model itself is left as it is: the pass that counts work calls it."""
    device = Graphs()
    of = subject(small_mlp)
    asked = replace(GRAPH, dtype="bf16" if autocast else "fp32")
    asked = replace(asked, mode=replace(asked.mode, autocast=autocast))
    made = modes.build(of, asked, True, device, Training(capture="forward_backward"))
    (graphed,) = device.graphed_modules
    assert device.autocast == [(False, True)]  # what is graphed enters it by itself
    assert made.target is graphed is not of.module
    assert "forward" not in vars(of.module)
    assert made.graphed
    assert made.step == made.live == made.trainer.step
    assert device.captured == []
    plain = modes.build(subject(small_mlp), replace(asked, mode=replace(asked.mode, graph=False)),
                        True, device, Training())  # fmt: skip
    for _ in range(3):
        losses = [torch.as_tensor(each.step()).item() for each in (made, plain)]
    assert losses[0] == losses[1]
    assert equal(parameters(made), parameters(plain))


def test_named_inputs_cannot_be_graphed_alone() -> None:
    module = nn.Linear(4, 4)
    of = trainable(Subject(module, Inputs((), {"input": torch.randn(2, 4)})), "mse", 0)
    with pytest.raises(UsageError, match="positional arguments alone"):
        modes.build(of, GRAPH, True, Graphs(), Training(capture="forward_backward"))


def test_inputs_by_name_are_trained_on_too() -> None:
    module = nn.Linear(4, 4)
    of = trainable(Subject(module, Inputs((), {"input": torch.randn(2, 4)})), "mse", 0)
    assert exam.examine(learners.exam_of(of), built(of), EAGER).error < 1e-4


# Checkpointing


@pytest.mark.parametrize("checkpoint", RECOMPUTING)
@pytest.mark.parametrize("name", ["small_mlp", "small_transformer", "normalised", "partly_used"])
def test_recomputed_activations_change_nothing_but_memory(name: str, checkpoint: str) -> None:
    of = subject(LEARNERS[name])
    made = built(of, checkpoint=checkpoint)
    assert list(trained(made.subject.module)) == list(trained(of.module))
    usual = exam.examine(learners.exam_of(of), built(of), EAGER)
    assert exam.examine(learners.exam_of(of), made, EAGER) == usual


def test_children_in_lists_are_recomputed_one_by_one() -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.named = nn.ModuleDict({"last": nn.Linear(4, 4)})
            self.empty = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in (*self.layers, self.named["last"]):
                x = torch.tanh(layer(x))
            return x

    of = subject(lambda: (Stack(), (torch.randn(2, 4),)))
    made = built(of, checkpoint="children")
    wrapped = [type(each).__name__ for each in made.subject.module.modules()]
    assert wrapped.count("CheckpointWrapper") == 3
    assert exam.examine(learners.exam_of(of), made, EAGER).error < 1e-4


# Two of them in one process


def entrants(**options: Any) -> list[Entrant]:
    asked = learners.case(small_mlp, HALF_AMP, optimizer="adamw", **options)
    of = subject(small_mlp)
    pair = (asked.variant, asked.baseline)
    return [enter(of, each, asked, Cpu(), smoke()) for each in pair]


def test_case_and_baseline_start_alike_and_never_disturb_each_other() -> None:
    case, baseline = (each.built for each in entrants())
    assert equal(parameters(case), parameters(baseline))
    assert equal([*case.subject.inputs.tensors()], [*baseline.subject.inputs.tensors()])
    addresses = [
        {
            each.untyped_storage().data_ptr()
            for each in (*made.tensors(), *made.trainer.start.values)
        }
        for made in (case, baseline)
    ]
    assert not addresses[0] & addresses[1]
    alone = [torch.as_tensor(case.step()).item() for _ in range(6)]
    case.restore()
    untouched = everything(baseline)
    together = []
    for _ in range(6):
        together.append(torch.as_tensor(case.step()).item())
        assert equal(untouched, everything(baseline))
        before = everything(case)
        baseline.step()
        assert equal(before, everything(case))
        untouched = everything(baseline)
    assert together == alone


def test_what_starts_is_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first call trains, a capture several times: training starts before all of these."""
    of = subject(small_mlp)
    asked = learners.case(small_mlp)
    entrant = enter(of, asked.variant, asked, Cpu(), smoke())
    given = [each.detach() for each in of.module.parameters()]
    assert equal(parameters(entrant.built), given)
    assert equal(list(entrant.built.trainer.start.values), given)


def test_every_block_trains_from_the_start_in_memory_placed_anew() -> None:
    pair = entrants()
    start = [everything(each.built) for each in pair]
    redraw = race._redraw(pair, Cpu(), seed=0)
    for _ in range(3):
        for each in pair:
            each.built.step()
        before = [[t.data_ptr() for t in each.built.tensors()] for each in pair]
        held = redraw()
        for each, values, addresses in zip(pair, start, before, strict=True):
            assert equal(everything(each.built), values)
            moved = [
                t.data_ptr() != address
                for t, address in zip(each.built.tensors(), addresses, strict=True)
            ]
            assert all(moved), "parameters, inputs, targets and the optimizer's state"
        del held


def test_an_optimizer_goes_on_where_its_memory_was_moved() -> None:
    moved, still = (built(subject(small_mlp), optimizer="adamw") for _ in range(2))
    redraw = placement.moving(moved.tensors(), 0)
    for _ in range(4):
        held = redraw()
        moved.step()
        still.step()
        del held
    assert equal(everything(moved), everything(still))


def test_the_mlp_has_a_child_per_layer() -> None:
    module, _ = mlp.build(batch=2, width=4, depth=3)
    assert [len(list(child.parameters())) for child in module.children()] == [2, 2, 2]
