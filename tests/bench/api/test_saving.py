"""Models that `modescope.compare` writes to a file, and what a fresh process makes of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.api import saving
from modescope.bench.model.building import build
from modescope.bench.records.cases import PICKLED_TARGET, Model, Pickled
from modescope.bench.records.errors import UsageError
from tests.helpers import own_kernels


def saved(model: Any, inputs: Any, study: Path, name: str = "net") -> Model:
    named = saving.save(model, inputs, name, study)
    pickled = Pickled(str(study / "model" / f"{named}.pt"), named.partition(".")[2])
    return Model(named.partition(".")[0], PICKLED_TARGET, pickled=pickled)


def linear(width: int = 4, batch: int = 2) -> tuple[nn.Linear, tuple[torch.Tensor]]:
    return nn.Linear(width, width), (torch.rand(batch, width),)


def test_a_module_comes_back_in_fp32_with_its_weights_and_inputs(tmp_path: Path) -> None:
    module, (x,) = linear()
    subject = build(saved(module.train(), {"input": x}, tmp_path), {})
    assert torch.equal(subject.module.state_dict()["weight"], module.weight)
    assert torch.equal(subject.inputs.kwargs["input"], x)
    assert (subject.module.training, module.training) == (False, True)
    subject = build(saved(module.half(), x.bfloat16(), tmp_path), {})
    assert {each.dtype for each in subject.tensors()} == {torch.float32}
    assert module.weight.dtype == torch.float16


def test_a_function_takes_sizes_and_returns_the_inputs_too_unless_they_are_given(
    tmp_path: Path,
) -> None:
    subject = build(saved(linear, None, tmp_path), {"width": 8, "batch": 3})
    assert subject.inputs.args[0].shape == (3, 8)
    given = saved(lambda width: nn.Linear(width, 2), torch.ones(5, 4), tmp_path)
    assert build(given, {"width": 4}).inputs.args[0].shape == (5, 4)


@pytest.mark.parametrize(
    ("function", "shape", "sentence"),
    [
        (linear, {"seq": 8}, "shape.seq=8: net takes no seq"),
        (lambda: nn.Linear(2, 2), {}, "net returned a module without inputs"),
        (lambda: 3, {}, "net returned int; it must return"),
    ],
)
def test_a_function_that_returns_no_model_is_named(
    function: Any, shape: dict[str, int], sentence: str, tmp_path: Path
) -> None:
    model = saved(function, None, tmp_path)
    with pytest.raises(UsageError, match=sentence):
        build(model, shape)
    Path(model.pickled.file).write_bytes(b"")
    with pytest.raises(UsageError, match="net: a fresh process cannot load it"):
        build(model, shape)


def test_what_cannot_be_pickled_leaves_no_file(tmp_path: Path) -> None:
    module = nn.Linear(2, 2)
    vars(module)["guard"] = threading.Lock()
    with pytest.raises(UsageError, match=r"net cannot be sent .* cannot pickle .*lock"):
        saving.save(module, None, "net", tmp_path)
    assert list(tmp_path.rglob("*.pt*")) == []


def test_an_operator_that_a_module_keeps_is_saved_by_name(tmp_path: Path) -> None:
    named = saving.save(own_kernels.Mine(), torch.rand(2, own_kernels.WIDTH), "Mine", tmp_path)
    file = str(tmp_path / "model" / f"{named}.pt")
    subject = build(Model("Mine", PICKLED_TARGET, pickled=Pickled(file, "0")), {})
    assert vars(subject.module)["operator"] is own_kernels.norm


@pytest.mark.parametrize("as_function", [False, True])
def test_an_operator_of_the_script_has_to_move_to_a_module(
    as_function: bool, tmp_path: Path
) -> None:
    module = own_kernels.Mine()
    module.operator = torch.library.custom_op(
        f"modescope_kernel_tests::own_{as_function}", in_main, mutates_args=()
    )
    given = (lambda: module) if as_function else module
    with pytest.raises(UsageError, match="modescope_kernel_tests::own") as raised:
        saving.save(given, torch.rand(2, own_kernels.WIDTH), "Mine", tmp_path)
    assert "move it into a module" in str(raised.value)
    assert "function" not in str(raised.value)
    assert list(tmp_path.rglob("*.pt*")) == []


def in_main(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


in_main.__module__ = "__main__"


def test_the_hash_is_that_of_code_weights_and_inputs(tmp_path: Path) -> None:
    module, (x,) = linear()
    first = saving.save(module, x, "net", tmp_path)
    assert first == saving.save(module, x.clone(), "net", tmp_path)
    assert first == saving.save(module, x, "net", tmp_path / "other")
    assert saving.save(module, x + 1, "net", tmp_path).startswith("net-2.")
    with torch.no_grad():
        module.weight += 1
    assert saving.save(module, x, "net", tmp_path).startswith("net-3.")
    assert saving.save(module, x, "other", tmp_path).partition(".")[0] == "other"
    codes = [
        saving.save(eval(code), None, "code", tmp_path)
        for code in ("lambda: 1", "lambda: 1", "lambda: 2")
    ]
    assert codes[0] == codes[1] != codes[2]


def test_a_class_defined_anew_with_the_same_code_is_the_same_model(tmp_path: Path) -> None:
    """As when a notebook's cell runs again: cloudpickle gives each class a random id."""
    names = set()
    for _ in range(2):
        scope: dict[str, Any] = {"__name__": "__main__", "nn": nn}
        exec("class Net(nn.Module):\n    def forward(self, x):\n        return x + 1", scope)
        names.add(saving.save(scope["Net"](), torch.ones(1), "net", tmp_path))
    assert len(names) == 1
