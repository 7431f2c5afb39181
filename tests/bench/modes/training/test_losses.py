"""A loss of the user's must be found, and must give one number that a parameter has a part in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modescope.bench.model.subject import Inputs
from modescope.bench.modes import losses
from modescope.bench.records.errors import UsageError

LEARNER = """
def distance(output, inputs):
    return (output - inputs[0]).square().mean()

def vector(output, inputs):
    return (output - inputs[0]).square().mean(-1)
"""


def test_a_loss_must_be_found_and_have_one_element(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loss_learner.py").write_text(LEARNER)
    monkeypatch.syspath_prepend(tmp_path)
    x = torch.ones(2, 3)
    inputs = Inputs((x,), {})
    assert losses.returned_loss({"loss": x.sum()}, inputs) == 6
    assert losses.loss_of("loss_learner:distance")(x, inputs) == 0
    with pytest.raises(UsageError, match=r"forward returned Tensor.*loss=module:function"):
        losses.returned_loss(x, inputs)
    with pytest.raises(UsageError, match=r"model\.loss=loss_learner:vector: "):
        losses.loss_of("loss_learner:vector")(x, inputs)
    with pytest.raises(UsageError, match=r"model\.loss=loss_learner:gone: "):
        losses.check(torch.nn.Linear(3, 3), "loss_learner:gone")
    with pytest.raises(UsageError, match="no parameter that requires a gradient"):
        losses.check(torch.nn.ReLU(), "mse")
