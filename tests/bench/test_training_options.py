"""Options of training: their meaning, refusals, and the case's id."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

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
from modescope.bench.steps.subject import Inputs
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


def test_options_count_for_the_case_id_unless_they_are_at_their_default(
    typed_case: Resolve,
) -> None:
    usual = typed_case("phase=train")
    asked = typed_case("phase=train", "train.scaler=false", "model.loss=my_pkg.losses:hinge")
    assert asked.options == Training(scaler=False, loss="my_pkg.losses:hinge")
    changed = {"scaler": False, "loss": "my_pkg.losses:hinge"}
    assert non_defaults(asked.options) == changed
    assert asked.case_id != usual.case_id
    assert all(each in work_of(asked, made_up_records.plan()).training for each in changed)
    same = typed_case("phase=train", "train.lr=0.001", "train.optimizer=sgd")
    assert same.case_id == usual.case_id
    assert non_defaults(usual.options) == {}
    assert usual.case_id != typed_case("mode.grad=enabled").case_id
    ours = {each.name: each.default for each in fields(Training) if each.name != "loss"}
    assert {each.name: each.default for each in fields(TrainSettings)} == ours


@pytest.mark.parametrize(
    ("mode", "dtype", "asked", "scales"),
    [
        (AMP, "fp16", None, True),
        (AMP, "fp16", False, False),
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
    with pytest.raises(UsageError, match="no parameter that requires a gradient"):
        losses.check(torch.nn.ReLU(), "mse")


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
