"""Steps that train in CUDA graphs, emulated on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from modescope.bench.case import memory, runner
from modescope.bench.case.roofline import counting
from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Result
from modescope.bench.steps import modes
from modescope.bench.steps.phases import TrainingPhase
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.steps.training import training_check
from modescope.bench.steps.training.losses import trainable
from modescope.bench.steps.training.trainer import RECOMPUTING, trainer_of
from tests.helpers import probe_models
from tests.helpers.captured_training import (
    ASKED,
    IMPLEMENTATIONS,
    LR,
    SAVED_BYTES,
    WEIGHTS_BYTES,
    Named,
    Tolerance,
    Unused,
    built,
    in_graphs,
    restores_its_start,
    step,
    subject_of,
    training,
    trains_alike,
    two_layers,
    values,
)
from tests.helpers.emulated_graphs import REFUSED, Emulated, Graph, emulated
from tests.helpers.probe_models import case, model, silent, smoke, variant

EQUAL = Tolerance(relative=0.0, absolute=0.0)
FP16 = variant("fp16", autocast=True)


pytestmark = pytest.mark.usefixtures("as_in_a_child")


@pytest.fixture
def device(restored_settings: None) -> Iterator[Emulated]:
    """With one thread: synchronising several takes longer than such small work."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        yield emulated(patch)


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize(("asked", "options"), ASKED)
def test_a_captured_step_trains_as_eager(
    optimizer: str, asked: Variant, options: dict[str, Any], device: Emulated
) -> None:
    how = training(optimizer, **options)
    trains_alike(built(in_graphs(asked), how, device), built(asked, how, device), EQUAL)


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_implementation_of_an_optimizer_is_captured(
    optimizer: str, implementation: str, device: Emulated
) -> None:
    how = training(optimizer, implementation=implementation)
    asked = variant()
    trains_alike(built(in_graphs(asked), how, device), built(asked, how, device), EQUAL)


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize(("asked", "options"), [*ASKED, (FP16, {})])
def test_forward_and_backward_in_graphs_train_as_eager(
    optimizer: str, asked: Variant, options: dict[str, Any], device: Emulated
) -> None:
    """The optimizer, and a scaler that may synchronise, run outside of the graphs."""
    how = training(optimizer, capture="forward_backward", **options)
    trains_alike(built(in_graphs(asked), how, device), built(asked, how, device), EQUAL)


@pytest.mark.parametrize("capture", ["step", "forward_backward"])
@pytest.mark.parametrize(
    ("checkpoint", "asked"),
    [("children", variant("bf16", autocast=True)), ("model", variant())],
)
def test_recomputed_activations_can_be_captured(
    checkpoint: str, asked: Variant, capture: str, device: Emulated
) -> None:
    how = training("sgd", capture=capture)

    def of() -> nn.Module:
        return RECOMPUTING[checkpoint](two_layers(), False)

    trains_alike(built(in_graphs(asked), how, device, of), built(asked, how, device), EQUAL)


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("capture", ["step", "forward_backward"])
@pytest.mark.parametrize(("asked", "options"), ASKED[::3])
def test_training_is_restored_to_its_start(
    optimizer: str, asked: Variant, options: dict[str, Any], capture: str, device: Emulated
) -> None:
    restores_its_start(
        built(in_graphs(asked), training(optimizer, capture=capture, **options), device)
    )


def test_gradients_are_those_of_replays_again_after_a_live_step(device: Emulated) -> None:
    made = built(in_graphs(variant()), training("sgd"), device)
    loss = step(made, seed=1)
    found = [gradient.clone() for gradient in trainer_of(made).gradients()]
    with made.keep_state():
        made.live()
        assert not any(map(torch.equal, trainer_of(made).gradients(), found))
    assert torch.equal(step(made, seed=1), loss)
    assert all(map(torch.equal, trainer_of(made).gradients(), found))


def test_a_replayed_loss_keeps_no_tape(device: Emulated) -> None:
    """A tape would hold nodes of the capture's stream, for which live steps would wait."""
    made = built(in_graphs(variant()), training("sgd"), device)
    loss = made.step()
    assert isinstance(loss, Tensor)
    assert not loss.requires_grad
    assert made.step() is loss


@pytest.mark.parametrize(
    ("optimizer", "asked", "options"),
    [
        pytest.param("sgd", FP16, {}, id="a scaler that asks the host"),
        pytest.param("adamw", variant(), {"capturable": False}, id="steps counted on the host"),
    ],
)
def test_refused_cases_cannot_be_captured(
    optimizer: str, asked: Variant, options: dict[str, Any], device: Emulated
) -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        built(in_graphs(asked), training(optimizer, **options), device)


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("capture", ["step", "forward_backward"])
def test_a_replay_skips_a_step_that_overflows(
    optimizer: str, capture: str, device: Emulated
) -> None:
    how = training(optimizer, implementation="fused", capture=capture)
    made = built(in_graphs(FP16), how, device)
    before, scale = values(made), trainer_of(made).scaler.get_scale()
    assert training_check.plant_overflow(made).skipped
    assert all(map(torch.equal, values(made), before))
    made.subject.inputs.args[0][0, 0] = torch.inf
    made.step()
    *after, halved = values(made)
    assert all(map(torch.equal, after, before))
    assert halved == scale / 2


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("capture", ["step", "forward_backward"])
def test_replays_pass_the_training_check_and_replays_of_nothing_do_not(
    optimizer: str, capture: str, device: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, asked = training(optimizer, capture=capture), in_graphs(variant())
    subject = subject_of(two_layers(), device)
    check = TrainingPhase(how).check(subject, device, seed=0)
    assert check.unfit is None
    made = built(asked, how, device)
    before = values(made)
    assert check.examine(made, asked).error < 1e-4
    assert all(map(torch.equal, values(made), before))
    step(made, seed=1)
    monkeypatch.setattr(Graph, "replay", lambda self: None)
    assert not check.examine(made, asked).error < 0.1


RUNS = [
    pytest.param(variant(), {}, id="step"),
    pytest.param(FP16, {"implementation": "fused"}, id="step with scaler"),
    pytest.param(FP16, {"capture": "forward_backward"}, id="forward and backward with scaler"),
]


@pytest.fixture
def run(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """A whole run of a captured case, beside eager."""
    monkeypatch.setattr(runner, "find", lambda name: device)

    def of(asked: Variant, **options: Any) -> Result:
        how = replace(training("adamw", **options), lr=1e-3)
        of_model = model(probe_models.two_layers)
        asked_case = replace(case(of_model, in_graphs(asked)), options=how)
        return runner.run(silent, asked_case, replace(smoke(), memory=True))

    return of


@pytest.mark.parametrize(("asked", "options"), RUNS)
def test_a_whole_run_of_a_captured_case(
    asked: Variant, options: dict[str, Any], run: Callable[..., Result]
) -> None:
    result = run(asked, **options)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert found.error <= found.error_limit
    assert len(found.latency_rounds_s) == len(found.baseline_latency_rounds_s) > 0
    assert found.overflow_skipped is (True if asked.dtype == "fp16" else None)
    assert found.gradient_bytes == found.weights_bytes
    in_pieces = "capture" in options
    assert (found.forward_rounds_s is not None) == in_pieces
    assert (found.saved_activation_bytes is None) == in_pieces


def test_a_graph_that_does_nothing_is_a_wrong_result(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Graph, "replay", lambda graph: None)
    result = run(variant())
    assert result.status == "wrong_result"
    assert " of " in result.reason


def test_two_captured_steps_do_not_disturb_each_other(device: Emulated) -> None:
    """Candidate and baseline are copies of one subject, so they start alike and share nothing."""
    subject = subject_of(two_layers(), device)
    asked, how = variant(), training("adamw")
    one, other = (
        modes.build(subject.cast(torch.float32), each, True, device, TrainingPhase(how))
        for each in (in_graphs(asked), asked)
    )
    trainer_of(one).restore()
    assert all(map(torch.equal, trainer_of(one).trained, trainer_of(other).trained))
    before = values(other)
    step(one, seed=1)
    assert all(map(torch.equal, values(other), before))
    losses = [float(step(other, seed)) for seed in (1, 2)]
    step(one, seed=2)
    trainer_of(one).restore()
    trainer_of(other).restore()
    assert [float(step(other, seed)) for seed in (1, 2)] == losses
    assert not {id(t) for t in one.tensors()} & {id(t) for t in other.tensors()}


IN_AUTOCAST: list[bool] = []  # each backward that was computed


class Backward(torch.autograd.Function):
    """Multiplies, and records whether autocast is on while its gradient is computed."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        IN_AUTOCAST.append(torch.is_autocast_enabled("cpu"))
        (x,) = ctx.saved_tensors
        return gradient.to(x.dtype).T @ x, None


class OwnBackward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 16))

    def forward(self, x: Tensor) -> Any:
        return Backward.apply(self.weight, x)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("capture", ["step", "forward_backward"])
def test_a_backward_is_captured_outside_of_autocast(capture: str, device: Emulated) -> None:
    IN_AUTOCAST.clear()
    asked = variant("bf16", autocast=True)
    built(in_graphs(asked), training("sgd", capture=capture), device, OwnBackward)
    assert IN_AUTOCAST
    assert not any(IN_AUTOCAST)


class TestForwardAndBackward:
    """Graphs of forward and backward, within a step that is not captured as a whole."""

    how = training("sgd", capture="forward_backward")
    asked = in_graphs(variant())

    def test_forward_and_backward_are_one_replay_each(
        self, device: Emulated, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = built(self.asked, self.how, device)
        replayed: list[Graph] = []

        def noted(graph: Graph) -> None:
            replayed.append(graph)

        monkeypatch.setattr(Graph, "replay", noted)
        trainer_of(made).forward()
        (forward,) = replayed
        trainer_of(made).backward(trainer_of(made).forward())
        assert [graph is forward for graph in replayed] == [True, True, False]
        assert made.step == made.live

    def test_capturing_leaves_the_model_unchanged(self, device: Emulated) -> None:
        """Its work is counted in eager later."""
        made = built(self.asked, self.how, device)
        assert "forward" not in vars(made.subject.module)
        plain = modes.build(made.subject, variant(), True, device, TrainingPhase(self.how))
        usual = built(variant(), self.how, device)
        assert counting.count(plain) == counting.count(usual)
        assert counting.count(plain).flops > 0

    def test_a_parameter_may_be_unused(self, device: Emulated) -> None:
        one, other = (built(each, self.how, device, Unused) for each in (self.asked, variant()))
        for seed in (1, 2):
            assert torch.equal(step(one, seed), step(other, seed))
        assert all(map(torch.equal, values(one), values(other)))
        assert one.subject.module.get_parameter("idle").grad is None

    def test_named_inputs_are_refused(self, device: Emulated) -> None:
        module = Named()
        subject = trainable(Subject(module, Inputs((), {"x": torch.randn(8, 16)})), "mse", 0)
        with pytest.raises(UsageError, match=r"give them by position, or use train\.capture=step"):
            modes.build(subject, self.asked, True, device, TrainingPhase(self.how))
        numbered = Subject(module, replace(subject.inputs, args=(torch.randn(8, 16), 2), kwargs={}))
        with pytest.raises(UsageError, match=r"input 1 of the model is of type int; use train"):
            modes.build(numbered, self.asked, True, device, TrainingPhase(self.how))
        whole = TrainingPhase(replace(self.how, capture="step"))
        made = modes.build(subject, self.asked, True, device, whole)
        assert made.step != made.live

    def test_memory_inside_graphs_is_unknown(self, device: Emulated) -> None:
        asked = in_graphs(variant("bf16", autocast=True))
        made = built(asked, self.how, device)
        found = memory.read(made, asked, device.allocator)
        assert (found.saved_activation_bytes, found.autocast_copy_bytes) == (None, None)
        assert "graph" in found.memory_note
        whole = built(asked, replace(self.how, capture="step"), device)
        seen = memory.read(whole, asked, device.allocator)
        plain = variant("bf16", autocast=True)
        usual = memory.read(built(plain, self.how, device), plain, device.allocator)
        assert seen.saved_activation_bytes == usual.saved_activation_bytes > SAVED_BYTES / 2
        assert seen.autocast_copy_bytes == usual.autocast_copy_bytes == WEIGHTS_BYTES / 2
