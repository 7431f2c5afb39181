"""Steps that train in CUDA graphs, emulated on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.case import runner
from modescope.bench.checking import training_check
from modescope.bench.checking.prepare import check_for
from modescope.bench.model.subject import Inputs
from modescope.bench.modes import modes
from modescope.bench.modes.phases import TrainingPhase
from modescope.bench.modes.trainer import trainer_of
from modescope.bench.passes import counting
from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import UsageError
from tests.helpers import probe_models
from tests.helpers.captured_training import (
    ASKED,
    LR,
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
from tests.helpers.emulated_graphs import Emulated, Graph, emulated
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import case, model, silent, smoke, variant

FP16 = variant("fp16", autocast=True)


pytestmark = pytest.mark.usefixtures("as_in_a_child")


@pytest.fixture
def device(restored_settings: None) -> Iterator[Emulated]:
    """With one thread: synchronising several takes longer than such small work."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        yield emulated(patch)


CAPTURES = ("step", "forward_backward")
IMPLEMENTED = [
    pytest.param(variant(), {"implementation": each}, id=each)
    for each in ("for_loop", "foreach", "fused")
]


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(("asked", "options"), [*ASKED, *IMPLEMENTED])
def test_a_captured_step_trains_as_eager(
    optimizer: str, capture: str, asked: Variant, options: dict[str, Any], device: Emulated
) -> None:
    how = training(optimizer, capture=capture, **options)
    trains_alike(built(in_graphs(asked), how, device), built(asked, how, device))


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(("asked", "options"), ASKED[::3])
def test_training_is_restored_to_its_start(
    asked: Variant, options: dict[str, Any], capture: str, device: Emulated
) -> None:
    restores_its_start(
        built(in_graphs(asked), training("adamw", capture=capture, **options), device)
    )


def test_gradients_are_those_of_replays_again_after_a_live_step(device: Emulated) -> None:
    """And its loss keeps no tape, for whose nodes of the capture's stream live steps would wait."""
    made = built(in_graphs(variant()), training("sgd"), device)
    loss = step(made, seed=1)
    found = [gradient.clone() for gradient in trainer_of(made).gradients()]
    with made.keep_state():
        made.live()
        assert not any(map(torch.equal, trainer_of(made).gradients(), found))
    assert torch.equal(step(made, seed=1), loss)
    assert all(map(torch.equal, trainer_of(made).gradients(), found))
    assert not torch.as_tensor(made.step()).requires_grad


def test_a_captured_step_reads_targets_of_its_own_into_which_it_copies(device: Emulated) -> None:
    made = built(in_graphs(variant()), training("sgd"), device)
    (target,) = made.subject.inputs.targets

    def live() -> Tensor:
        with made.keep_state():
            return torch.as_tensor(made.live()).detach().clone()

    before = live()
    target += 5.0
    assert torch.equal(live(), before), "which reads what was captured"
    with made.keep_state():
        made.step()
    assert not torch.equal(live(), before)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_replay_skips_a_step_that_overflows(capture: str, device: Emulated) -> None:
    how = training("adamw", implementation="fused", capture=capture)
    made = built(in_graphs(FP16), how, device)
    before, scale = values(made), trainer_of(made).scaler.get_scale()
    assert training_check.skips_overflow(made)
    assert all(map(torch.equal, values(made), before))
    made.subject.inputs.args[0][0, 0] = torch.inf
    made.step()
    *after, halved = values(made)
    assert all(map(torch.equal, after, before))
    assert halved == scale / 2


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("capture", CAPTURES)
def test_replays_of_nothing_or_of_an_old_batch_do_not_pass_the_training_check(
    optimizer: str, capture: str, device: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, asked = training(optimizer, capture=capture), in_graphs(variant())
    subject = subject_of(two_layers(), device)
    check = check_for(TrainingPhase(how), subject, device, seed=0)
    assert check.unfit is None
    made = built(asked, how, device)
    before = values(made)
    assert check.examine(made, asked).error < 1e-4
    assert all(map(torch.equal, values(made), before))
    step(made, seed=1)
    first, replay = made.subject.inputs.copy(), Graph.replay

    def on_the_first_batch(graph: Graph) -> None:
        made.subject.given.assign(first)  # which the replay reads
        replay(graph)

    for wrong in (lambda graph: None, on_the_first_batch):
        monkeypatch.setattr(Graph, "replay", wrong)
        assert not check.examine(made, asked).error < 0.1


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_whole_run_of_a_captured_case(
    capture: str, device: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside eager; a scaler may only be captured with a fused optimizer."""
    monkeypatch.setattr(runner, "find", lambda name: device)
    in_pieces = capture == "forward_backward"
    how = training("adamw", capture=capture, **({} if in_pieces else {"implementation": "fused"}))
    asked = case(model(probe_models.two_layers), in_graphs(FP16))
    asked = replace(asked, options=replace(how, lr=1e-3))
    result = runner.run(silent, asked, replace(smoke(), memory=True))
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert found.checks.error <= found.checks.error_limit
    assert (
        len(rounds_of(found).latency_rounds_s)
        == len(rounds_of(found).baseline_latency_rounds_s)
        > 0
    )
    assert found.loss_scaling.overflow_skipped is True
    assert found.memory.gradient_bytes == found.memory.weights_bytes
    assert (found.step_parts.forward_rounds_s is not None) == in_pieces
    assert (found.memory.saved_activation_bytes is None) == in_pieces


IN_AUTOCAST: list[bool] = []  # each backward that was computed


class Hooked(nn.Module):
    """Records whether autocast is on while gradients are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x)
        if y.requires_grad:
            y.register_hook(lambda gradient: IN_AUTOCAST.append(torch.is_autocast_enabled("cpu")))
        return y


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_backward_is_captured_outside_of_autocast(capture: str, device: Emulated) -> None:
    IN_AUTOCAST.clear()
    asked = variant("bf16", autocast=True)
    built(in_graphs(asked), training("sgd", capture=capture), device, Hooked)
    assert IN_AUTOCAST
    assert not any(IN_AUTOCAST)


PARTS = training("sgd", capture="forward_backward")
"""Graphs of forward and backward, within a step that is not captured as a whole."""


def test_forward_and_backward_are_one_replay_each_and_leave_the_model_unchanged(
    device: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work is counted in eager later."""
    made = built(in_graphs(variant()), PARTS, device)
    assert made.step == made.live
    replayed: list[Graph] = []
    monkeypatch.setattr(Graph, "replay", lambda graph: replayed.append(graph))
    trainer_of(made).forward()
    (forward,) = replayed
    trainer_of(made).backward(trainer_of(made).forward())
    assert [graph is forward for graph in replayed] == [True, True, False]
    plain = modes.build(made.subject, variant(), True, device, TrainingPhase(PARTS))
    usual = built(variant(), PARTS, device)
    assert counting.count(plain) == counting.count(usual)
    assert counting.count(plain).flops > 0


def test_a_parameter_may_be_unused(device: Emulated) -> None:
    asked = (in_graphs(variant()), variant())
    one, other = (built(each, PARTS, device, Unused) for each in asked)
    for seed in (1, 2):
        assert torch.equal(step(one, seed), step(other, seed))
    assert all(map(torch.equal, values(one), values(other)))
    assert one.subject.module.get_parameter("idle").grad is None


def test_inputs_that_graphs_cannot_take_are_refused(device: Emulated) -> None:
    x, module = torch.randn(8, 16), two_layers()
    for inputs, other in ((Inputs((), {"input": x}), "input"), (Inputs((x, 2), {}), "1")):
        given = replace(subject_of(module, device), inputs=inputs)
        with pytest.raises(UsageError, match=f"not input {other} of the model"):
            modes.build(given, in_graphs(variant()), True, device, TrainingPhase(PARTS))
