"""Options of training: their meaning, refusals, and the case's id."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import torch

from modescope.bench.records.cases import Case, Inference, Mode, Training, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.records.ids import stated
from modescope.bench.records.results import work_of
from modescope.bench.records.training_options import LOSSES
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.steps.training import checkpointing, losses
from modescope.bench.sweep import jobs
from modescope.bench.sweep.refusals import refusal
from modescope.bench.sweep.settings.request import Request
from modescope.bench.sweep.settings.request_to_case import resolve
from modescope.bench.sweep.settings.schema import LIMITS, TrainConfig
from tests.helpers import made_up_records
from tests.helpers.commands import QUICKLY, TINY, Cli, rows
from tests.helpers.made_up_records import CPU, H100
from tests.helpers.paths import HELPERS

EAGER = made_up_records.EAGER
GRAPH = replace(EAGER, name="cuda-graph", graph=True)
COMPILE = replace(EAGER, name="compile", compile="default")
COMPILED_GRAPH = replace(GRAPH, name="compile-cuda-graph", compile="default")
AMP = replace(EAGER, name="amp", autocast=True)
AMP_GRAPH = replace(GRAPH, name="amp[graph=true]", autocast=True)
NO_GRAD = replace(EAGER, name="no_grad", grad="no_grad")
INFERENCE = replace(EAGER, name="inference_mode", grad="inference_mode")


def case(mode: Mode = EAGER, dtype: str = "fp32", **options: Any) -> Case:
    asked = Variant(mode, dtype)
    return made_up_records.case(variant=asked, baseline=None, options=Training(**options))


Resolve = Callable[..., Case]


@pytest.fixture
def typed_case(ask: Callable[..., list[Request]]) -> Resolve:
    return lambda *arguments: resolve(ask(*arguments)[0], lambda name: CPU)[0]


def test_phase_train_selects_training(typed_case: Resolve) -> None:
    assert typed_case("phase=train").options == Training()
    assert typed_case("phase=train").phase == "train"
    assert typed_case().options == Inference()


def test_natural_gradients_are_enabled_in_training(typed_case: Resolve) -> None:
    asked = typed_case("phase=train", "mode=compile")
    assert asked.variant.mode == COMPILE
    assert asked.baseline == Variant(EAGER, "fp32")


@pytest.mark.parametrize(
    ("argument", "option", "value"),
    [
        ("train.optimizer=adamw", "optimizer", "adamw"),
        ("train.implementation=foreach", "implementation", "foreach"),
        ("train.capturable=true", "capturable", True),
        ("train.lr=0.5", "lr", 0.5),
        ("train.scaler=false", "scaler", False),
        ("train.capture=forward_backward", "capture", "forward_backward"),
        ("train.checkpoint=children", "checkpoint", "children"),
        ("train.activation_memory_budget=0.5", "activation_memory_budget", 0.5),
        ("model.loss=output", "loss", "output"),
        ("model.loss=my_pkg.losses:hinge", "loss", "my_pkg.losses:hinge"),
    ],
)
def test_every_training_option_changes_the_case_id(
    argument: str, option: str, value: Any, typed_case: Resolve
) -> None:
    asked = typed_case("phase=train", argument)
    assert asked.options == replace(Training(), **{option: value})
    assert stated(asked.options) == {option: value}
    assert asked.case_id != typed_case("phase=train").case_id
    assert option in work_of(asked, made_up_records.plan()).training


def test_options_at_their_default_do_not_change_the_id(typed_case: Resolve) -> None:
    usual = typed_case("phase=train")
    assert typed_case("phase=train", "train.lr=0.001", "train.optimizer=sgd").case_id == (
        usual.case_id
    )
    assert stated(usual.options) == {}
    assert usual.case_id != typed_case("mode.grad=enabled").case_id


def test_the_command_line_has_every_option_and_its_default() -> None:
    ours = {each.name: each.default for each in fields(Training) if each.name != "loss"}
    assert {each.name: each.default for each in fields(TrainConfig)} == ours


def test_every_choice_has_its_function() -> None:
    assert set(LIMITS["train.checkpoint"].choices) == set(checkpointing.RECOMPUTING)
    assert all(callable(losses.loss_of(name)) for name in LOSSES)


@pytest.mark.parametrize(
    ("argument", "culprit"),
    [
        ("train.optimizer=adam", "train.optimizer=adam: did you mean adamw? Allowed are sgd"),
        ("train.implementation=slow", "train.implementation=slow: allowed are default, for_loop"),
        ("train.capture=all", "train.capture=all: allowed are step, forward_backward"),
        ("train.checkpoint=some", "train.checkpoint=some: allowed are none, children, model"),
        ("train.lr=0", "train.lr=0.0: must be from 1e-12"),
        ("train.lr=nan", "train.lr=nan: must be from 1e-12"),
        ("train.lr=fast", "train.lr"),
        ("train.activation_memory_budget=1.5", "budget=1.5: must be from 0 to 1"),
        ("train.activation_memory_budget=-1", "budget=-1.0: must be from 0 to 1"),
        ("+train.momentum=0.9", "train.momentum: no such key; known are optimizer"),
        ("model.loss=huber", "model.loss=huber: allowed are mse, output, or a function as"),
    ],
)
def test_invalid_values_are_refused(argument: str, culprit: str, typed_case: Resolve) -> None:
    with pytest.raises(UsageError) as refused:
        typed_case("phase=train", argument)
    assert culprit in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_training_options_without_training_are_refused(typed_case: Resolve) -> None:
    with pytest.raises(UsageError, match=r"model\.loss=output: phase=inference trains nothing"):
        typed_case("model.loss=output")
    with pytest.raises(UsageError, match="phase=inference trains nothing; add phase=train"):
        typed_case("train.optimizer=adamw")


# Combinations

NO_GRADIENT = "no gradient is recorded, so nothing can be trained; use mode=eager, amp or compile"

REFUSED: list[tuple[Case, DeviceFacts, str]] = [
    (case(NO_GRAD), CPU, f"under no_grad {NO_GRADIENT}"),
    (case(INFERENCE), CPU, f"under inference_mode {NO_GRADIENT}"),
    (case(EAGER, "fp16"), CPU, "small gradients of fp16 weights vanish, and GradScaler refuses"),
    (case(COMPILE, "fp16", scaler=True), H100, "small gradients of fp16 weights vanish"),
    (case(AMP_GRAPH, "fp16"), H100, "GradScaler decides on the host whether to skip a step"),
    (case(GRAPH, scaler=True), H100, "add train.implementation=fused, which"),
    (case(optimizer="adamw", capturable=True), CPU, "train.capturable=true needs an NVIDIA GPU"),
    (case(GRAPH, optimizer="adamw", capturable=False), H100, "adamw counts its steps on the host"),
    (case(GRAPH, capturable=True), H100, "optimizers that count their steps, and sgd does not"),
    (case(EAGER, capturable=False), CPU, "optimizers that count their steps, and sgd does not"),
    (case(capture="forward_backward"), H100, "train.capture=forward_backward says what mode.graph"),
    (
        case(COMPILED_GRAPH, capture="forward_backward"),
        H100,
        "make_graphed_callables does not take compiled modules",
    ),
    (case(activation_memory_budget=0.5), CPU, "is the compiler's, and mode=eager does not compile"),
    (case(GRAPH), CPU, "a CUDA graph needs an NVIDIA GPU"),
]

ACCEPTED: list[tuple[Case, DeviceFacts]] = [
    (case(), CPU),
    (case(EAGER, "bf16"), CPU),
    (case(AMP, "bf16"), CPU),
    (case(AMP, "fp16"), CPU),
    (case(AMP, "fp16", scaler=False), CPU),
    (case(AMP, "bf16", scaler=True), CPU),
    (case(optimizer="adamw", capturable=True), H100),
    (case(GRAPH), H100),
    (case(COMPILED_GRAPH), H100),
    (case(GRAPH, optimizer="adamw"), H100),
    (case(AMP_GRAPH, "fp16", implementation="fused"), H100),
    (case(AMP_GRAPH, "fp16", capture="forward_backward"), H100),
    (case(AMP_GRAPH, "fp16", scaler=False), H100),
    (case(GRAPH, optimizer="adamw", capturable=False, capture="forward_backward"), H100),
    (case(COMPILE, activation_memory_budget=0.0), CPU),
    (case(COMPILE, checkpoint="children"), CPU),
]


@pytest.mark.parametrize(("asked", "device", "reason"), REFUSED, ids=lambda value: None)
def test_cases_that_cannot_be_trained_are_refused(
    asked: Case, device: DeviceFacts, reason: str
) -> None:
    found = refusal(asked, device)
    assert reason in str(found)
    assert "\n" not in found


@pytest.mark.parametrize(("asked", "device"), ACCEPTED, ids=lambda value: None)
def test_cases_that_can_be_trained_are_accepted(asked: Case, device: DeviceFacts) -> None:
    assert refusal(asked, device) is None


def test_a_baseline_must_be_able_to_train_too() -> None:
    asked = replace(case(COMPILE), baseline=Variant(NO_GRAD, "fp32"))
    assert refusal(asked, CPU).startswith("the baseline no_grad: under no_grad no gradient is")
    asked = replace(case(COMPILE), baseline=Variant(EAGER, "fp16"))
    assert "or baseline.dtype=bf16" in refusal(asked, CPU)


def test_options_without_effect_on_the_baseline_are_accepted() -> None:
    asked = case(COMPILE, activation_memory_budget=0.5)
    assert refusal(replace(asked, baseline=Variant(EAGER, "fp32")), CPU) is None


@pytest.mark.parametrize(
    ("mode", "options", "inside"),
    [
        (GRAPH, {}, True),
        (GRAPH, {"capture": "forward_backward"}, False),
        (EAGER, {}, False),
    ],
)
def test_which_modes_capture_the_whole_step(
    mode: Mode, options: dict[str, Any], inside: bool
) -> None:
    assert Training(**options).captures_step(mode) is inside


@pytest.mark.parametrize(
    ("mode", "dtype", "asked", "scales"),
    [
        (AMP, "fp16", None, True),
        (AMP, "fp16", False, False),
        (AMP, "bf16", None, False),
        (AMP, "bf16", True, True),
        (EAGER, "fp32", None, False),
    ],
)
def test_a_loss_is_scaled_for_autocast_to_fp16(
    mode: Mode, dtype: str, asked: bool | None, scales: bool
) -> None:
    assert Training(scaler=asked).scales(Variant(mode, dtype)) is scales


# The command line

THEIRS = HELPERS / "user_losses.py"


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Arguments for the models and losses of user_losses.py, in a folder of the user's."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "learner.py").write_text(THEIRS.read_text())
    monkeypatch.syspath_prepend(folder)

    def arguments(*models: str) -> list[str]:
        targets = ",".join(f"learner:{name}" for name in models)
        return ["model=custom", f"model.target={targets}", "phase=train", "mode=eager", *QUICKLY]

    return arguments


@pytest.mark.parametrize(
    ("model", "loss", "culprit"),
    [
        ("without_parameters", "mse", losses.NOTHING_TO_TRAIN),
        ("layer", "learner:gone", "model.loss=learner:gone: learner has no function 'gone'"),
        ("layer", "no_such_package:loss", "cannot import no_such_package"),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused_before_measuring(
    model: str, loss: str, culprit: str, cli: Cli, results: Path, theirs: Callable[..., list[str]]
) -> None:
    answer = cli(*theirs(model), f"model.loss={loss}")
    assert answer.status == 2
    assert culprit in answer.err
    assert len(answer.err.splitlines()) == 1
    assert rows(results) == []


def test_a_model_that_only_generates_is_refused_in_a_sentence(cli: Cli, results: Path) -> None:
    answer = cli("model=decode", "phase=train", "mode=eager", *QUICKLY)
    assert answer.status == 2
    assert answer.err.count("\n") == 1
    assert "phase=train: model=decode only generates" in answer.err
    assert "train model=prefill" in answer.err
    assert rows(results) == []


def test_an_error_of_the_first_forward_fails_only_its_case(
    cli: Cli, results: Path, theirs: Callable[..., list[str]]
) -> None:
    asked = ("model.loss=output,learner:vector", "order=given")
    answer = cli("-m", *theirs("layer", "its_own_loss"), *asked)
    assert answer.status == 1
    assert "Traceback" not in answer.err
    reasons = {
        (row["model"].rpartition(":")[2], json.loads(row["training"])["loss"]): row["reason"]
        for row in rows(results)
    }
    one_element = "model.loss=learner:vector: it must return a tensor of one element"
    assert reasons == {
        ("layer", "output"): losses.NO_SCALAR.format("Tensor"),
        ("layer", "learner:vector"): one_element,
        ("its_own_loss", "output"): None,
        ("its_own_loss", "learner:vector"): ANY,  # it cannot subtract from a dict
    }
    assert {row["status"] for row in rows(results) if row["reason"]} == {"failed"}


def test_an_edited_loss_is_measured_again(
    cli: Cli, results: Path, theirs: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Even with a built-in model, whose source is part of another hash."""
    theirs("layer")
    asked = ("phase=train", "mode=eager", "model.loss=learner:distance", *TINY)
    for _ in range(2):
        assert cli("-m", *asked).status == 0
    assert len(rows(results)) == 1
    source = tmp_path / "theirs" / "learner.py"
    source.write_text(source.read_text().replace("square", "abs"))
    jobs._model_source.cache_clear()  # as in a new process
    assert "the model's source changed" in cli("-m", *asked).out
    assert len(rows(results)) == 2


class Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.weight).argmax(-1)

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))


def test_outputs_without_a_floating_tensor_are_refused() -> None:
    of = Subject(Numbers(), Inputs((torch.randn(2, 4),), {}))
    with pytest.raises(UsageError, match="forward returns no floating tensor"):
        losses.trainable(of, "mse", seed=0)
