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

from modescope.bench.records.cases import (
    LOSSES,
    Case,
    Inference,
    Mode,
    Training,
    Variant,
    non_defaults,
)
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import work_of
from modescope.bench.resolve import Request, resolve
from modescope.bench.settings import LIMITS, TrainSettings
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.steps.training import losses, trainer
from tests.helpers import made_up_records
from tests.helpers.commands import QUICKLY, TINY, Cli, rows
from tests.helpers.made_up_records import CPU
from tests.helpers.paths import HELPERS

EAGER = made_up_records.EAGER
GRAPH = replace(EAGER, name="cuda-graph", graph=True)
COMPILE = replace(EAGER, name="compile", compile="default")
AMP = replace(EAGER, name="amp", autocast=True)

Resolve = Callable[..., Case]


@pytest.fixture
def typed_case(ask_quickly: Callable[..., list[Request]]) -> Resolve:
    return lambda *arguments: resolve(ask_quickly(*arguments)[0], lambda name: CPU)[0]


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
    assert non_defaults(asked.options) == {option: value}
    assert asked.case_id != typed_case("phase=train").case_id
    assert option in work_of(asked, made_up_records.plan()).training


def test_options_at_their_default_do_not_change_the_id(typed_case: Resolve) -> None:
    usual = typed_case("phase=train")
    assert typed_case("phase=train", "train.lr=0.001", "train.optimizer=sgd").case_id == (
        usual.case_id
    )
    assert non_defaults(usual.options) == {}
    assert usual.case_id != typed_case("mode.grad=enabled").case_id


def test_the_command_line_has_every_option_and_its_default() -> None:
    ours = {each.name: each.default for each in fields(Training) if each.name != "loss"}
    assert {each.name: each.default for each in fields(TrainSettings)} == ours


def test_every_choice_has_its_function() -> None:
    assert set(LIMITS["train.checkpoint"]["choices"]) == set(trainer.RECOMPUTING)
    assert all(callable(losses.loss_of(name)) for name in LOSSES)


def test_training_options_without_training_are_refused(typed_case: Resolve) -> None:
    with pytest.raises(UsageError, match=r"^train\.optimizer=adamw: .*phase=train"):
        typed_case("train.optimizer=adamw")


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


@pytest.mark.full
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


@pytest.mark.full
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
