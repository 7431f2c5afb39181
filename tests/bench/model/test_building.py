"""Building models as users write them, and what is said of those that cannot be built."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu
from modescope.bench.model import building, plain_call
from modescope.bench.model.building import build, draw_inputs
from modescope.bench.model.subject import Subject
from modescope.bench.records.cases import Model, canonical_json
from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import parse

TARGET = "user_net:build"

Make = Callable[..., Subject]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """The subject of a function in a user's module; `inputs` are described, or the function's.

    Described inputs are tried, as before any measurement.
    """

    def subject(
        function: Callable[..., Any], inputs: Any = None, kwargs: Any = None, **sizes: int
    ) -> Subject:
        module = ModuleType("user_net")
        module.build = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "user_net", module)
        described = None if inputs is None else canonical_json(inputs)
        arguments = canonical_json(kwargs or {})
        model = Model(f"custom:{TARGET}", TARGET, arguments, inputs_json=described)
        made = build(model, sizes)
        if inputs is not None:
            plain_call.try_call(made, Cpu(), model, sizes)
        return made

    return subject


def linear(batch: int = 2, width: int = 3) -> tuple[nn.Module, tuple[Tensor]]:
    return nn.Linear(width, width), (torch.randn(batch, width),)


def test_sizes_and_arguments_reach_the_function(make: Make) -> None:
    made = make(linear, kwargs={"width": 5}, batch=7)
    assert made.inputs.args[0].shape == (7, 5)
    assert not made.module.training
    assert make(lambda **sizes: linear(**sizes), batch=7).inputs.args[0].shape == (7, 3)


def test_inputs_by_position_or_by_name(make: Make) -> None:
    x, y = torch.randn(2, requires_grad=True) * 2, torch.randn(3)
    x.scale = 4  # type: ignore[attr-defined]
    for example, names in (([x, y], []), ({"left": x, "right": y}, ["left", "right"]), (x, [])):
        inputs = make(lambda example=example: (nn.Identity(), example)).inputs
        assert all(map(torch.equal, inputs.tensors(), (x, y)))
        first = inputs.tensors()[0]
        assert (first.requires_grad, first.is_leaf, vars(first)) == (True, True, {"scale": 4})
        assert list(inputs.kwargs) == names


class Mask:
    """No container, and nothing that modescope could copy or redraw."""


class Net(nn.Module):
    """Counts its calls, takes options."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor, states: list[Tensor] | None = None, *, times: int = 1) -> Any:
        self.get_buffer("calls").add_(1)
        for state in states or ():
            x = x + state
        return self.linear(x) * times


class Greedy(Net):
    """Takes any arguments."""

    def __init__(self, **options: Any) -> None:
        super().__init__(4)
        self.options = options


ONE, NAMED, FOUR = (torch.ones(1),), {"x": [2, 4]}, {"width": 4}


@pytest.mark.parametrize(
    ("function", "options", "part"),
    [
        (lambda: None, {}, "returned NoneType; it must return (torch.nn.Module, example inputs)"),
        (lambda: (nn.Identity(), (3, None)), {}, "returned (Identity, tuple); it must"),
        (lambda: (nn.Identity(), {0: torch.ones(1)}), {}, "returned (Identity, dict); it must"),
        (lambda: nn.LSTM(2, 3), {}, "returned a module without inputs; describe them"),
        (lambda: (nn.Identity(), {"x": ONE, "deep": [Mask()]}), {}, "['deep'][0] is of type Mask"),
        (linear, {"depth": 2}, "shape.depth=2: user_net:build takes no depth"),
        (Net, {"inputs": NAMED}, "cannot be called with {}: missing"),
        (linear, {"kwargs": {"widht": 4}}, "'widht'; it takes batch, width; set model.kwargs"),
        (lambda: 1 / 0, {"inputs": NAMED}, "raised ZeroDivisionError: "),
        (linear, {"inputs": NAMED}, "(Linear, tuple); with model.inputs it must return"),
        (Greedy, {"inputs": NAMED, "batch": 3}, "takes no batch"),
        (Net, {"inputs": {"y": [2, 4]}, "kwargs": FOUR}, "unexpected keyword argument 'y'"),
        (Net, {"inputs": {"x": [2, 5]}, "kwargs": FOUR},
         "fails in eval() with model.inputs: RuntimeError: mat1 and mat2"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_or_called_is_one_sentence(
    make: Make, function: Callable[..., Any], options: dict[str, Any], part: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make(function, **options)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_failure_that_only_waiting_for_a_device_shows_is_seen(make: Make) -> None:
    def fail() -> NoReturn:
        raise RuntimeError("CUDA error: device-side assert triggered")

    gpu = Cpu()
    gpu.synchronize = fail
    with pytest.raises(UsageError, match=r"shape.batch=2: RuntimeError: CUDA error: device-side"):
        plain_call.try_call(make(linear), gpu, Model("net", TARGET), {"batch": 2})


def test_lack_of_memory_is_no_mistake_of_the_user(make: Make) -> None:
    class Hungry(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.ones(2**50)

    def too_large() -> nn.Module:
        raise MemoryError

    make(Hungry, NAMED)
    with pytest.raises(MemoryError):
        make(too_large, {"x": [2]})


@pytest.mark.parametrize(
    ("source", "target", "part"),
    [
        ("", "no_such_package.net:build", "cannot import no_such_package.net"),
        ("", "modescope.models.mlp:made_up", "models.mlp has no function 'made_up'"),
        ("", "modescope.models.mlp:__name__", "models.mlp has no function '__name__'"),
        ("", "modescope.models.mlp:biuld", "; did you mean modescope.models.mlp:build?"),
        ("def build(:", "user_file:build", "SyntaxError"),
        ("import no_such_package", "user_file:build", "No module named 'no_such_package'"),
    ],
)
def test_a_target_that_cannot_be_imported_is_a_usage_error(
    source: str, target: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user_file.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as refused:
        building.find(target)
    assert part in str(refused.value)
    assert f"model.target={target}: " in str(refused.value)


def test_a_module_in_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, target = tmp_path / "near_nets" / "net.py", "near_nets.net:build"
    file.parent.mkdir()
    file.write_text("def build(): ...")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(UsageError, match=r"or start in its folder$"):
        building.find(target)
    monkeypatch.chdir(tmp_path)
    assert Path(building.find(target).__code__.co_filename) == file


def drawn(description: Any, **sizes: int) -> Any:
    torch.manual_seed(0)
    return draw_inputs(parse([[], description]), sizes)[1]


def test_described_tensors_are_drawn_within_their_limits_and_the_rest_stays() -> None:
    made = drawn(["seq", 50, "batch"], seq=20, batch=10)
    assert (made.shape, made.dtype) == ((20, 50, 10), torch.float32)
    assert abs(made.mean()) < 0.05
    assert abs(made.std() - 1) < 0.05
    made = drawn({"size": [10_000], "low": 2, "high": 4})
    assert 2 <= made.min() < 2.01 < 3.99 < made.max() < 4
    made = drawn({"size": [1000], "dtype": "int8", "low": 3, "high": 6})
    assert (made.dtype, set(made.tolist())) == (torch.int8, {3, 4, 5})
    whole = {"size": [1000], "dtype": "int64", "low": -(2**63), "high": 2**63 - 1}
    made = drawn([whole, {"size": [100], "dtype": "bool"}, None, {"k": 2, "act": "gelu", "y": []}])
    assert made[0].min() < -(2**61) < 2**61 < made[0].max()
    assert 20 < int(made[1].sum()) < 80
    assert (made[2], made[3]["k"], made[3]["act"], made[3]["y"].shape) == (None, 2, "gelu", ())


def test_a_class_is_built_with_its_arguments_and_described_inputs(make: Make) -> None:
    described = {"x": ["batch", 4], "states": [[4], ["batch", 1]], "times": 2}
    made = make(Net, described, FOUR, batch=3)
    assert isinstance(made.module, Net)
    assert not made.module.training
    assert (made.inputs.args, made.inputs.kwargs["times"]) == ((), 2)
    assert [t.shape for t in made.inputs.tensors()] == [(4,), (3, 1), (3, 4)]
    assert made.module.calls == 0, "trying it left no trace"
    listed = make(lambda: Net(4), [[2, 4], None]).inputs
    assert (len(listed.args), listed.args[1], listed.kwargs) == (2, None, {})


def test_a_described_size_reaches_the_class_only_as_an_argument_of_its_name(make: Make) -> None:
    class Sized(Greedy):
        def __init__(self, batch: int) -> None:
            super().__init__(batch=batch)

    assert make(Sized, {"x": ["batch", 4]}, batch=3).module.options == {"batch": 3}
    assert make(Sized, {"x": [2, 4]}, batch=3).module.options == {"batch": 3}
    assert make(Greedy, {"x": ["batch", 4], "times": 3}, batch=3).module.options == {}
