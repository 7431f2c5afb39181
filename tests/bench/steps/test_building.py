"""Building models as users write them, and what is said of those that cannot be built."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.records.cases import Model
from modescope.bench.records.errors import UsageError
from modescope.bench.steps import building
from modescope.bench.steps.subject import redraw

Build = Callable[..., Any]


@pytest.fixture
def from_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[Build], Model]:
    """A model of a function that lies in an importable module of the user's."""

    def model(build: Build, **kwargs: Any) -> Model:
        module = ModuleType("user_net")
        module.build = build  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "user_net", module)
        return Model("custom:user_net:build", "user_net:build")

    return model


def linear(batch: int = 2, width: int = 3) -> tuple[nn.Module, tuple[Tensor]]:
    return nn.Linear(width, width), (torch.randn(batch, width),)


def test_sizes_and_arguments_reach_the_function(from_user: Callable[[Build], Model]) -> None:
    asked = from_user(linear)
    model = Model(asked.name, asked.target, args_json='{"width":5}')
    made = building.build(model, {"batch": 7})
    assert made.inputs.args[0].shape == (7, 5)
    assert not made.module.training


@pytest.mark.parametrize(
    ("example", "names"),
    [
        (lambda x, y: (x, y), ["", ""]),
        (lambda x, y: [x, y], ["", ""]),
        (lambda x, y: {"left": x, "right": y}, ["left", "right"]),
        (lambda x, y: x, [""]),
    ],
    ids=["tuple", "list", "dict", "tensor"],
)
def test_inputs_by_position_or_by_name(
    example: Callable[[Tensor, Tensor], Any], names: list[str], from_user: Callable[[Build], Model]
) -> None:
    x, y = torch.randn(2), torch.randn(3)
    inputs = building.build(from_user(lambda: (nn.Identity(), example(x, y))), {}).inputs
    assert [torch.equal(a, b) for a, b in zip(inputs.tensors(), (x, y), strict=False)] == [
        True for _ in names
    ]
    assert list(inputs.kwargs) == [name for name in names if name]


def test_inputs_are_detached(from_user: Callable[[Build], Model]) -> None:
    x = torch.randn(2, requires_grad=True) * 2
    made = building.build(from_user(lambda: (nn.Identity(), (x,))), {})
    assert not made.inputs.args[0].requires_grad
    assert not made.cast(torch.bfloat16).inputs.args[0].requires_grad


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: None, "returned NoneType"),
        (lambda: (nn.Identity(),), "returned (Identity)"),
        (lambda: (nn.Identity(), (torch.ones(1),), 1), "(Identity, tuple of Tensor, int)"),
        (lambda: (None, (torch.ones(1),)), "returned (NoneType, tuple of Tensor)"),
        (lambda: (nn.Identity, (torch.ones(1),)), "returned (type, tuple of Tensor)"),
        (lambda: (nn.Identity(), ()), "returned (Identity, tuple of nothing)"),
        (lambda: (nn.Identity(), {}), "returned (Identity, dict of nothing)"),
        (lambda: (nn.Identity(), (3, None)), "returned (Identity, tuple of NoneType, int)"),
        (lambda: (nn.Identity(), {"x": [1, 2]}), "returned (Identity, dict of list)"),
        (lambda: (nn.Identity(), {0: torch.ones(1)}), "returned (Identity, dict of Tensor)"),
        (lambda: (nn.Identity(), 3.0), "returned (Identity, float)"),
    ],
)
def test_a_return_value_other_than_module_and_inputs_is_named(
    build: Build, part: str, from_user: Callable[[Build], Model]
) -> None:
    with pytest.raises(UsageError) as refused:
        building.build(from_user(build), {})
    assert part in str(refused.value)
    assert "it must return (torch.nn.Module, example inputs)" in str(refused.value)


class Mask:
    """No container, and nothing that modescope could copy or redraw."""


@pytest.mark.parametrize(
    ("example", "where"),
    [
        ((torch.ones(1), Mask()), "[1] is of type Mask"),
        ({"x": torch.ones(1), "deep": [{"mask": Mask()}]}, "['deep'][0]['mask'] is of type Mask"),
        ((torch.ones(1), torch.float32), "[1] is of type dtype"),
    ],
)
def test_an_input_that_is_no_tensor_number_or_text_is_named(
    example: Any, where: str, from_user: Callable[[Build], Model]
) -> None:
    with pytest.raises(UsageError) as refused:
        building.build(from_user(lambda: (nn.Identity(), example)), {})
    assert f"user_net:build returned inputs of which {where}; an input is a" in str(refused.value)


def test_tensors_in_containers_are_copied_cast_and_redrawn_and_the_rest_stays(
    from_user: Callable[[Build], Model],
) -> None:
    shared = torch.randn(3, 4)
    given = {
        "x": shared,
        "states": (torch.arange(6.0), [shared, None]),
        "options": {"k": 2, "scale": 0.5, "causal": True, "act": "gelu", "ids": torch.arange(5)},
    }
    made = building.build(from_user(lambda: (nn.Identity(), given)), {})
    own = made.cast(torch.bfloat16).inputs
    floats, (tied, nothing) = own.kwargs["states"]
    assert tied is own.kwargs["x"]
    assert nothing is None
    assert tied.data_ptr() != shared.data_ptr()
    assert [t.dtype for t in own.tensors()] == [*[torch.bfloat16] * 3, torch.int64]
    plain = {name: own.kwargs["options"][name] for name in ("k", "scale", "causal", "act")}
    assert plain == {"k": 2, "scale": 0.5, "causal": True, "act": "gelu"}

    fresh = redraw(own, seed=1)
    assert fresh.kwargs["states"][1][0] is fresh.kwargs["x"]
    assert not torch.equal(fresh.kwargs["x"], own.kwargs["x"])
    assert sorted(fresh.kwargs["options"]["ids"].tolist()) == [0, 1, 2, 3, 4]
    assert fresh.kwargs["options"]["act"] == "gelu"

    own.assign(fresh)
    assert own.kwargs["states"][0] is floats
    assert torch.equal(floats, fresh.kwargs["states"][0])


def test_a_module_alone_needs_a_description_of_its_inputs(
    from_user: Callable[[Build], Model],
) -> None:
    with pytest.raises(UsageError) as refused:
        building.build(from_user(lambda: nn.LSTM(2, 3)), {})
    assert str(refused.value) == (
        "user_net:build returned LSTM without inputs; describe them, as in "
        "'+model.inputs={input: [8, 64]}', or return (torch.nn.Module, example inputs)"
    )


@pytest.mark.parametrize("sizes", [{"batch": 1, "depth": 2}, {"depth": 2}])
def test_sizes_unknown_to_the_function_are_a_usage_error(
    sizes: dict[str, int], from_user: Callable[[Build], Model]
) -> None:
    with pytest.raises(UsageError) as refused:
        building.build(from_user(linear), sizes)
    assert str(refused.value) == (
        "shape.depth=2: user_net:build takes no depth (its arguments are batch, width); leave it "
        "out"
    )


def test_a_function_may_take_any_size(from_user: Callable[[Build], Model]) -> None:
    made = building.build(from_user(lambda **sizes: linear(**sizes)), {"batch": 7})
    assert made.inputs.args[0].shape == (7, 3)


def test_a_missing_argument_is_a_usage_error(from_user: Callable[[Build], Model]) -> None:
    with pytest.raises(UsageError, match="missing a required argument: 'width'"):
        building.build(from_user(lambda width: linear(width=width)), {})


def test_a_callable_without_a_signature_is_a_usage_error(
    from_user: Callable[[Build], Model],
) -> None:
    with pytest.raises(UsageError, match="cannot be called with"):
        building.build(from_user(type), {})


def test_values_refused_by_the_function_are_a_usage_error() -> None:
    sizes = {"batch": 1, "seq": 2, "width": 6, "heads": 4}
    with pytest.raises(UsageError, match="width=6 cannot be split evenly over heads=4"):
        building.build(Model("transformer", "modescope.models.transformer:build"), sizes)


@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("no_such_package.net:build", "cannot import no_such_package.net"),
        (":build", "importing  fails"),
        (".net:build", "importing .net fails"),
        ("modescope.models.mlp:made_up", "models.mlp has no function 'made_up'"),
        ("modescope.models.mlp:", "models.mlp has no function ''"),
        ("modescope.models.mlp:__name__", "__name__ is not a function"),
    ],
)
def test_a_missing_target_is_a_usage_error(target: str, part: str) -> None:
    with pytest.raises(UsageError) as refused:
        building.find(target)
    assert part in str(refused.value)
    assert f"model.target={target}: " in str(refused.value)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("def build(:", "SyntaxError"),
        ("import torch\ntorch.nn.MadeUp", "has no attribute 'MadeUp'"),  # not: has no build
        ("import no_such_package", "No module named 'no_such_package'"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_usage_error(
    source: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user_file.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as refused:
        building.find("user_file:build")
    assert part in str(refused.value)
    assert "has no function" not in str(refused.value)


@pytest.mark.parametrize(
    ("file", "target"),
    [("near_net.py", "near_net:build"), ("near_nets/net.py", "near_nets.net:build")],
)
def test_a_module_in_the_current_folder_is_found(
    file: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("def build(): ...")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(UsageError) as far:
        building.find(target)
    assert str(far.value).endswith(
        "install it, put its folder on PYTHONPATH, or start in its folder"
    )
    monkeypatch.chdir(tmp_path)
    assert Path(building.find(target).__code__.co_filename) == tmp_path / file
