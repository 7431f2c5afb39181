"""Options of training: their meaning, refusals, and the case's id."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.records.cases import (
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
from modescope.bench.settings import TrainSettings
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.steps.training import losses
from tests.helpers import made_up_records
from tests.helpers.commands import QUICKLY, TINY, Cli, rows
from tests.helpers.made_up_records import CPU

EAGER = made_up_records.EAGER
AMP = replace(EAGER, name="amp", autocast=True)

Resolve = Callable[..., Case]


@pytest.fixture
def typed_case(ask_quickly: Callable[..., list[Request]]) -> Resolve:
    return lambda *arguments: resolve(ask_quickly(*arguments)[0], lambda name: CPU)[0]


def test_phase_train_selects_training(typed_case: Resolve) -> None:
    """Natural gradients are then enabled."""
    asked = typed_case("phase=train", "mode=compile")
    assert (asked.phase, asked.options) == ("train", Training())
    assert asked.variant.mode == replace(EAGER, name="compile", compile="default")
    assert asked.baseline == Variant(EAGER, "fp32")
    assert typed_case().options == Inference()
    with pytest.raises(UsageError, match=r"^train\.optimizer=adamw: .*phase=train"):
        typed_case("train.optimizer=adamw")


@pytest.mark.parametrize(
    ("argument", "option", "value"),
    [
        ("train.scaler=false", "scaler", False),
        ("train.activation_memory_budget=0.5", "activation_memory_budget", 0.5),
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


LEARNER = """
def distance(output, inputs):
    return (output - inputs[0]).square().mean()

def vector(output, inputs):
    return (output - inputs[0]).square().mean(-1)
"""


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with losses, in a folder of the user's."""
    file = tmp_path / "theirs" / "learner.py"
    file.parent.mkdir()
    file.write_text(LEARNER)
    monkeypatch.syspath_prepend(file.parent)
    monkeypatch.delitem(sys.modules, "learner", raising=False)
    return file


@pytest.mark.usefixtures("learner")
def test_a_loss_must_be_found_and_have_one_element() -> None:
    x = torch.ones(2, 3)
    inputs = Inputs((x,), {})
    assert losses.returned_loss({"loss": x.sum()}, inputs) == 6
    assert losses.loss_of("learner:distance")(x, inputs) == 0
    with pytest.raises(UsageError, match="forward returned Tensor"):
        losses.returned_loss(x, inputs)
    with pytest.raises(UsageError, match=r"model\.loss=learner:vector: "):
        losses.loss_of("learner:vector")(x, inputs)
    with pytest.raises(UsageError, match=r"model\.loss=learner:gone: "):
        losses.check(torch.nn.Linear(3, 3), "learner:gone")


def test_without_parameters_or_floating_outputs_nothing_is_trained() -> None:
    with pytest.raises(UsageError, match="no parameter that requires a gradient"):
        losses.check(torch.nn.ReLU(), "mse")
    of = Subject(Numbers(4, 4), Inputs((torch.randn(2, 4),), {}))
    with pytest.raises(UsageError, match="forward returns no floating tensor"):
        losses.trainable(of, "mse", seed=0)


class Numbers(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).argmax(-1)


def test_a_model_that_only_generates_is_refused(cli: Cli, results: Path) -> None:
    answer = cli("model=decode", "phase=train", "mode=eager", *QUICKLY)
    assert (answer.status, rows(results)) == (2, [])
    assert "model=decode only generates" in answer.err


@pytest.mark.full
def test_an_edited_loss_is_measured_again(cli: Cli, results: Path, learner: Path) -> None:
    """Even with a built-in model, whose source is part of another hash."""
    asked = ("phase=train", "mode=eager", "model.loss=learner:distance", *TINY)
    for _ in range(2):
        assert cli("-m", *asked).status == 0
    assert len(rows(results)) == 1
    learner.write_text(LEARNER.replace("square", "abs"))
    assert "the model's source changed" in cli("-m", *asked).out
    assert len(rows(results)) == 2
