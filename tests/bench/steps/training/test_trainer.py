"""A step's parts, its state, and restoring its start."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case import paired_timing
from modescope.bench.case.first_call import Contender, enter
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import OPTIMIZERS, Training, Variant
from modescope.bench.records.errors import UsageError
from modescope.bench.steps import modes
from modescope.bench.steps.phases import TrainingPhase
from modescope.bench.steps.subject import Built, Inputs, Subject
from modescope.bench.steps.training.losses import trainable
from modescope.bench.steps.training.trainer import (
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
from modescope.bench.timing import memory_layout
from modescope.models import mlp
from tests.helpers import trained_models
from tests.helpers.probe_models import EAGER as EAGER_MODE
from tests.helpers.probe_models import Applies, smoke, variant
from tests.helpers.trained_models import (
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
def test_the_optimizer_is_built_with_the_chosen_implementation(
    name: str, implementation: str, fused: bool | None, foreach: bool | None
) -> None:
    asked = Training(name, implementation, lr=0.5)
    made = optimizer(nn.Linear(2, 2).parameters(), asked, EAGER_MODE)
    assert type(made) is {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[name]
    (group,) = made.param_groups
    assert (group["fused"], group["foreach"], group["lr"]) == (fused, foreach, 0.5)
    assert unscales(made) == (implementation == "fused")


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
    made = optimizer(nn.Linear(2, 2).parameters(), asked, mode.mode)
    assert made.param_groups[0]["capturable"] is capturable


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_table_of_optimizers_describes_torch(name: str) -> None:
    """torch has the option capturable only for optimizers that count steps."""
    weight = nn.Parameter(torch.zeros(2))
    made = optimizer([weight], Training(name), EAGER_MODE)
    assert OPTIMIZERS[name].counts_steps == ("capturable" in made.param_groups[0])
    weight.grad = torch.tensor([1.0, 1e-4])
    made.step()
    large, small = weight.detach().abs().tolist()
    assert OPTIMIZERS[name].follows_size == (small < 0.01 * large)


def test_only_parameters_that_require_a_gradient_are_optimised() -> None:
    made = built(subject(trained_models.frozen))
    assert len(trainer_of(made).trained) == 3
    assert len(trainer_of(made).start.values) == 3


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

    with made.keep_state():
        first = course()
        after = everything(made)
        made.state.restore()
        assert equal(everything(made), before)
        assert course() == first
        assert equal(everything(made), after)
    assert equal(everything(made), before)
    assert first[3] < first[0]  # it learns


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_a_restored_optimizer_behaves_like_a_new_one(optimizer: str) -> None:
    """Its state of zeros equals that of a new one."""
    of = subject(small_mlp)
    used, new = (built(of, optimizer=optimizer) for _ in range(2))
    trainer_of(new).optimizer.state.clear()
    for _ in range(5):
        used.step()
    used.state.restore()
    for _ in range(3):
        used.step()
        new.step()
    assert equal(parameters(used), parameters(new))
    assert equal(trainer_of(used).tensors(), trainer_of(new).tensors())


def test_restoring_writes_in_place() -> None:
    """Compiled code and captured graphs know the addresses."""
    made = built(subject(small_mlp), optimizer="adamw")
    things = [*trainer_of(made).trained, *trainer_of(made).tensors()]
    addresses = [each.data_ptr() for each in things]
    made.step()
    made.state.restore()
    assert [
        each.data_ptr() for each in (*trainer_of(made).trained, *trainer_of(made).tensors())
    ] == addresses


def test_a_start_is_a_copy_and_may_move_to_the_host() -> None:
    module = nn.Linear(2, 2)
    start = start_of(module)
    with torch.no_grad():
        module.weight.zero_()
    assert start.values[0].any()
    assert not any(value.requires_grad for value in start.values)
    trainer = trainer_of(built(subject(small_mlp)))
    trainer.leave_device()
    assert {value.device.type for value in trainer.start.values} == {"cpu"}


def test_buffers_and_training_are_restored_by_nested_blocks() -> None:
    made = built(subject(trained_models.normalised))
    before = everything(made)
    with made.keep_state():
        made.step()
        with made.keep_state():
            made.step()
        made.step()
        assert not equal(everything(made), before)
    assert equal(everything(made), before)


def test_state_is_restored_after_an_exception() -> None:
    made = built(subject(small_mlp))
    before = everything(made)

    def fails() -> None:
        with made.keep_state():
            made.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert equal(everything(made), before)


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


# The loss scale


def scaled_by(factor: float) -> Built:
    """A loss whose scaled gradient is `factor` times the scale; fp16 holds up to 65504."""

    def loss(weight: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
        half = (weight * factor).half()  # its gradient passes through fp16
        return {"loss": half.float().sum() + 0 * x.sum()}

    torch.manual_seed(0)
    of = Subject(Applies(loss), Inputs((torch.randn(2, 4),), {}))
    asked = Training(loss="output", lr=0.1)
    return modes.build(trainable(of, "output", 0), HALF_AMP, True, Cpu(), TrainingPhase(asked))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 100.0])
def test_the_scale_settles_with_a_margin_to_overflow(factor: float) -> None:
    made = scaled_by(factor)
    trainer = trainer_of(made)
    trainer.settle(made.step)
    largest = FIRST_SCALE
    while largest > 65504:
        largest /= 2  # the upstream gradient is 1 x scale, in fp16
    assert trainer.start.scale == largest / HEADROOM
    assert trainer.scaler.get_scale() == trainer.start.scale
    before = parameters(made)
    made.step()
    assert not equal(before, parameters(made))
    assert trainer.scaler.get_scale() == trainer.start.scale


def test_a_scale_that_never_settles_is_halved_up_to_a_limit() -> None:
    made = scaled_by(math.inf)
    trainer_of(made).settle(made.step)
    assert trainer_of(made).start.scale == FIRST_SCALE / 2**MOST_HALVINGS / HEADROOM


def test_without_a_scaler_settling_does_nothing() -> None:
    made = built(subject(small_mlp))
    trainer_of(made).settle(lambda: pytest.fail("a step was made"))


# Steps of modes


def test_gradients_of_a_captured_step_are_known() -> None:
    device = Graphs()
    made = modes.build(subject(small_mlp), GRAPH, True, device, TrainingPhase(Training()))
    assert len(device.captured) == 1
    assert made.live == trainer_of(made).step != made.step
    assert not made.graphed
    assert [gradient.shape for gradient in trainer_of(made).captured] == [
        each.shape for each in trainer_of(made).trained
    ]


@pytest.mark.parametrize("autocast", [True, False])
def test_forward_and_backward_can_be_graphed_without_the_optimizer(autocast: bool) -> None:
    """The model itself is unchanged: the pass that counts work calls it."""
    device = Graphs()
    of = subject(small_mlp)
    asked = replace(GRAPH, dtype="bf16" if autocast else "fp32")
    asked = replace(asked, mode=replace(asked.mode, autocast=autocast))
    made = modes.build(of, asked, True, device, TrainingPhase(Training(capture="forward_backward")))
    (graphed,) = device.graphed_modules
    assert device.autocast == [(False, True)]  # graphed parts enter it themselves
    assert made.target is graphed is not of.module
    assert "forward" not in vars(of.module)
    assert made.graphed
    assert made.step == made.live == trainer_of(made).step
    assert device.captured == []
    plain = modes.build(subject(small_mlp), replace(asked, mode=replace(asked.mode, graph=False)),
                        True, device, TrainingPhase(Training()))  # fmt: skip
    for _ in range(3):
        losses = [torch.as_tensor(each.step()).item() for each in (made, plain)]
    assert losses[0] == losses[1]
    assert equal(parameters(made), parameters(plain))


def test_named_inputs_cannot_be_graphed_without_the_optimizer() -> None:
    module = nn.Linear(4, 4)
    of = trainable(Subject(module, Inputs((), {"input": torch.randn(2, 4)})), "mse", 0)
    with pytest.raises(UsageError, match="takes only positional arguments"):
        modes.build(of, GRAPH, True, Graphs(), TrainingPhase(Training(capture="forward_backward")))


def test_inputs_by_name_can_be_trained_on() -> None:
    module = nn.Linear(4, 4)
    of = trainable(Subject(module, Inputs((), {"input": torch.randn(2, 4)})), "mse", 0)
    assert trained_models.check_of(of).examine(built(of), EAGER).error < 1e-4


# Checkpointing


@pytest.mark.parametrize("checkpoint", RECOMPUTING)
@pytest.mark.parametrize("name", ["small_mlp", "small_transformer", "normalised", "partly_used"])
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

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in (*self.layers, self.named["last"]):
                x = torch.tanh(layer(x))
            return x

    of = subject(lambda: (Stack(), (torch.randn(2, 4),)))
    made = built(of, checkpoint="children")
    wrapped = [type(each).__name__ for each in made.subject.module.modules()]
    assert wrapped.count("CheckpointWrapper") == 3
    assert trained_models.check_of(of).examine(made, EAGER).error < 1e-4


# Two of them in one process


def entrants(**options: Any) -> list[Contender]:
    asked = trained_models.case(small_mlp, HALF_AMP, optimizer="adamw", **options)
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
            for each in (*made.tensors(), *trainer_of(made).start.values)
        }
        for made in (case, baseline)
    ]
    assert not addresses[0] & addresses[1]
    alone = [torch.as_tensor(case.step()).item() for _ in range(6)]
    case.state.restore()
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


def test_training_starts_from_the_given_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """First calls and captures train, so the start is kept before them."""
    of = subject(small_mlp)
    asked = trained_models.case(small_mlp)
    entrant = enter(of, asked.variant, asked, Cpu(), smoke())
    given = [each.detach() for each in of.module.parameters()]
    assert equal(parameters(entrant.built), given)
    assert equal(list(trainer_of(entrant.built).start.values), given)


def test_every_block_trains_from_the_start_in_memory_placed_anew() -> None:
    pair = entrants()
    start = [everything(each.built) for each in pair]
    redraw = paired_timing.redraw(pair, Cpu(), seed=0)
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


def test_an_optimizer_works_after_its_memory_was_moved() -> None:
    moved, still = (built(subject(small_mlp), optimizer="adamw") for _ in range(2))
    redraw = memory_layout.anew(moved.tensors(), Cpu(), 0)
    for _ in range(4):
        held = redraw()
        moved.step()
        still.step()
        del held
    assert equal(everything(moved), everything(still))


def test_the_mlp_has_one_child_module_per_layer() -> None:
    module, _ = mlp.build(batch=2, width=4, depth=3)
    assert [len(list(child.parameters())) for child in module.children()] == [2, 2, 2]
