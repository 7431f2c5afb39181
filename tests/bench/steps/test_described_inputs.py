"""Inputs that are drawn from their description, for modules that bring none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Model, canonical_json
from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import parse
from modescope.bench.steps.building import build
from modescope.bench.steps.described_inputs import draw, extremes
from modescope.bench.steps.plain_call import try_described_inputs
from modescope.bench.steps.subject import Subject

CPU = Cpu()

Build = Callable[..., Any]
Make = Callable[..., Subject]


def drawn(description: Any, **sizes: int) -> Any:
    torch.manual_seed(0)
    return draw(parse([[], description]), sizes)[1]


def test_a_list_of_sizes_is_standard_normal() -> None:
    made = drawn(["seq", 50, "batch"], seq=20, batch=10)
    assert made.shape == (20, 50, 10)
    assert made.dtype == torch.float32
    assert abs(made.mean()) < 0.05
    assert abs(made.std() - 1) < 0.05


def test_floats_with_limits_are_uniform() -> None:
    made = drawn({"size": [10_000], "low": 2, "high": 4})
    assert 2 <= made.min() < 2.01
    assert 3.99 < made.max() < 4
    assert abs(made.mean() - 3) < 0.05


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_whole_numbers_reach_low_but_not_high(dtype: str) -> None:
    made = drawn({"size": [1000], "dtype": dtype, "low": 3, "high": 6})
    assert made.dtype == getattr(torch, dtype)
    assert set(made.tolist()) == {3, 4, 5}
    assert set(drawn({"size": [1000], "dtype": dtype, "high": 2}).tolist()) == {0, 1}


def test_the_whole_range_of_a_dtype_can_be_drawn() -> None:
    made = drawn({"size": [1000], "dtype": "int64", "low": -(2**63), "high": 2**63 - 1})
    assert made.min() < -(2**61) < 2**61 < made.max()
    assert drawn({"size": [5000], "dtype": "uint8", "high": 256}).max() == 255


def test_bools_are_true_or_false() -> None:
    made = drawn({"size": [100], "dtype": "bool"})
    assert made.dtype == torch.bool
    assert 20 < int(made.sum()) < 80


def test_other_values_and_containers_stay() -> None:
    made = drawn([[2, 3], None, {"k": 2, "act": "gelu", "y": []}])
    assert (made[0].shape, made[1], made[2]["k"], made[2]["act"]) == ((2, 3), None, 2, "gelu")
    assert made[2]["y"].shape == ()


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


class Renamed(Net):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


class Sized(Net):
    def __init__(self, width: int, batch: int) -> None:
        super().__init__(width)
        self.batch = batch


class Greedy(Net):
    def __init__(self, **options: Any) -> None:
        super().__init__(options.pop("width"))
        self.options = options


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """A subject from a class or function of somebody else's package, and `model.inputs`."""

    def subject(function: Build, inputs: Any, kwargs: Any = None, **sizes: int) -> Subject:
        module = ModuleType("package")
        module.target = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "package", module)
        arguments = canonical_json({"width": 4} if kwargs is None else kwargs)
        described = canonical_json(inputs)
        target = "package:target"
        return build(Model(f"custom:{target}", target, arguments, inputs_json=described), sizes)

    return subject


def test_a_class_is_built_with_its_arguments_and_described_inputs(make: Make) -> None:
    made = make(Net, {"x": ["batch", 4], "states": [[4], ["batch", 1]], "times": 2}, batch=3)
    assert isinstance(made.module, Net)
    assert not made.module.training
    assert made.inputs.args == ()
    assert made.inputs.kwargs["times"] == 2
    assert [t.shape for t in made.inputs.tensors()] == [(4,), (3, 1), (3, 4)]
    try_described_inputs(made, CPU)
    assert made.module.calls == 0


@pytest.mark.parametrize("size", [[1], [2, 3]])
def test_whole_numbers_reach_their_limits_in_the_trial(size: list[int]) -> None:
    sizes: dict[str, int] = {}
    parsed = parse({"x": {"size": size, "dtype": "int64", "low": 2, "high": 1000}, "y": [4]})
    tried = extremes(parsed, sizes)
    assert tried["x"].shape == torch.Size(size)
    assert set(tried["x"].flatten().tolist()) == ({999} if size == [1] else {2, 999})
    assert tried["y"].shape == (4,)


def test_a_list_describes_arguments_by_position(make: Make) -> None:
    made = make(lambda: Net(4), [[2, 4], None], kwargs={})
    assert made.inputs.kwargs == {}
    assert made.inputs.args[1] is None
    try_described_inputs(made, CPU)


def test_a_size_reaches_the_class_only_as_an_argument_of_its_name(make: Make) -> None:
    assert make(Sized, {"x": ["batch", 4]}, batch=3).module.batch == 3
    assert make(Sized, {"x": [2, 4]}, batch=3).module.batch == 3
    assert make(Greedy, {"x": ["batch", 4]}, batch=3).module.options == {}
    with pytest.raises(UsageError) as refused:
        make(Greedy, {"x": [2, 4]}, batch=3)
    assert str(refused.value) == (
        "shape.batch=3: package:target takes no batch (it names no arguments), and model.inputs "
        "names no such size; leave it out"
    )


def test_a_forward_of_any_arguments_takes_any_names(make: Make) -> None:
    try_described_inputs(make(Renamed, {"x": [2, 4], "times": 3}), CPU)


@pytest.mark.parametrize(
    ("function", "inputs", "kwargs", "sentence"),
    [
        (Net, {"y": [2, 4]}, None,
         "model.inputs.y: Net.forward has no argument y; its arguments are x, states, times"),
        (Net, {"times": 3, "states": [[2, 4]]}, None,
         "model.inputs: Net.forward: missing a required argument: 'x'; its arguments are x, "),
        (Net, [[2, 4], None, 3], None, "model.inputs: Net.forward: too many positional arguments"),
        (Net, {"x": [2, 4]}, {},
         "package:target, which must build the model, cannot be called with {}: "),
        (Net, {"x": [2, 4]}, {"width": -1}, "package:target refuses {'width': -1}: "),
        (Net, {"x": [2, 4]}, {"width": "4"}, "package:target refuses {'width': '4'}: TypeError: "),
        (lambda: 1 / 0, {"x": [2]}, {}, "package:target refuses {}: ZeroDivisionError: "),
        (dict, {"x": [2]}, {}, "package:target "),
        (lambda: "net", {"x": [2]}, {}, "package:target returned str; with model.inputs it must "),
        (lambda: (Net(4), (torch.ones(1),)), {"x": [2]}, {},
         "package:target returned (Net, tuple of Tensor); with model.inputs it must return a"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(
    make: Make, function: Build, inputs: Any, kwargs: Any, sentence: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make(function, inputs, kwargs)
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_a_forward_that_fails_is_refused_with_torchs_message(make: Make) -> None:
    with pytest.raises(UsageError) as refused:
        try_described_inputs(make(Net, {"x": [2, 5]}), CPU)
    assert str(refused.value).startswith(
        "model.inputs does not fit Net: RuntimeError: mat1 and mat2"
    )
    assert str(refused.value).endswith("; change the description, or model.kwargs")


def test_a_failure_that_only_waiting_for_the_gpu_shows_is_refused(make: Make) -> None:
    def fail() -> NoReturn:
        raise RuntimeError("CUDA error: device-side assert triggered")

    gpu = Cpu()
    gpu.synchronize = fail
    with pytest.raises(UsageError, match="does not fit Net: RuntimeError: CUDA error: device-side"):
        try_described_inputs(make(Net, {"x": [2, 4]}), gpu)


def test_lack_of_memory_is_no_mistake_of_the_user(make: Make) -> None:
    class Hungry(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.ones(2**50)

    def too_large() -> nn.Module:
        raise MemoryError

    try_described_inputs(make(Hungry, {"x": [2, 4]}, {}), CPU)
    with pytest.raises(MemoryError):
        make(too_large, {"x": [2]}, {})
    with pytest.raises(RuntimeError, match="memory"):
        make(Net, {"x": [2**50]})
