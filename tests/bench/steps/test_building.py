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
from modescope.bench.records.cases import Model, canonical_json
from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import parse
from modescope.bench.steps import building
from modescope.bench.steps.building import build, draw_inputs, extreme_inputs
from modescope.bench.steps.plain_call import try_described_inputs
from modescope.bench.steps.subject import Subject, redraw

CPU = Cpu()

Make = Callable[..., Subject]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """The subject of a function in a user's module; `inputs` are described, or the function's."""

    def subject(
        function: Callable[..., Any], inputs: Any = None, kwargs: Any = None, **sizes: int
    ) -> Subject:
        module = ModuleType("user_net")
        module.build = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "user_net", module)
        described = None if inputs is None else canonical_json(inputs)
        target, arguments = "user_net:build", canonical_json(kwargs or {})
        return build(Model(f"custom:{target}", target, arguments, inputs_json=described), sizes)

    return subject


def linear(batch: int = 2, width: int = 3) -> tuple[nn.Module, tuple[Tensor]]:
    return nn.Linear(width, width), (torch.randn(batch, width),)


def test_sizes_and_arguments_reach_the_function(make: Make) -> None:
    made = make(linear, kwargs={"width": 5}, batch=7)
    assert made.inputs.args[0].shape == (7, 5)
    assert not made.module.training
    assert make(lambda **sizes: linear(**sizes), batch=7).inputs.args[0].shape == (7, 3)


@pytest.mark.parametrize(
    ("example", "names"),
    [
        (lambda x, y: (x, y), []),
        (lambda x, y: [x, y], []),
        (lambda x, y: {"left": x, "right": y}, ["left", "right"]),
        (lambda x, y: x, []),
    ],
    ids=["tuple", "list", "dict", "tensor"],
)
def test_inputs_by_position_or_by_name(
    example: Callable[[Tensor, Tensor], Any], names: list[str], make: Make
) -> None:
    x, y = torch.randn(2, requires_grad=True) * 2, torch.randn(3)
    inputs = make(lambda: (nn.Identity(), example(x, y))).inputs
    assert all(map(torch.equal, inputs.tensors(), (x, y)))
    assert not inputs.tensors()[0].requires_grad
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
    """Takes any arguments and any inputs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(4)
        self.options = options

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


ONE, NAMED, FOUR = (torch.ones(1),), {"x": [2, 4]}, {"width": 4}


@pytest.mark.parametrize(
    ("function", "options", "part"),
    [
        (lambda: None, {}, "returned NoneType"),
        (lambda: (nn.Identity(), ONE, 1), {}, "(Identity, tuple of Tensor, int)"),
        (lambda: (nn.Identity(), (3, None)), {}, "returned (Identity, tuple of NoneType, int)"),
        (lambda: (nn.Identity(), {0: torch.ones(1)}), {}, "returned (Identity, dict of Tensor)"),
        (lambda: nn.LSTM(2, 3), {}, "without inputs; describe them, as in '+model.inputs={input: "),
        (lambda: (nn.Identity(), {"x": ONE, "deep": [Mask()]}), {}, "['deep'][0] is of type Mask"),
        (linear, {"depth": 2}, "shape.depth=2: user_net:build takes no depth"),
        (type, {}, "cannot be called with"),
        (Net, {"inputs": {"y": [2, 4]}, "kwargs": FOUR},
         "model.inputs.y: Net.forward has no argument y; its arguments are x, states, times"),
        (Net, {"inputs": {"states": [[2, 4]]}, "kwargs": FOUR}, "missing a required argument: 'x'"),
        (Net, {"inputs": NAMED}, "cannot be called with {}: missing"),
        (lambda: 1 / 0, {"inputs": NAMED}, "refuses {}: ZeroDivisionError: "),
        (linear, {"inputs": NAMED}, "(Linear, tuple of Tensor); with model.inputs it must return"),
        (Greedy, {"inputs": NAMED, "batch": 3}, "model.inputs names no such size"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_one_sentence(
    make: Make, function: Callable[..., Any], options: dict[str, Any], part: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make(function, **options)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tensors_in_containers_are_copied_cast_and_redrawn_and_the_rest_stays(make: Make) -> None:
    shared, options = torch.randn(3, 4), {"k": 2, "scale": 0.5, "causal": True, "act": "gelu"}
    given = {
        "x": shared,
        "states": (torch.arange(6.0), [shared, None]),
        "options": {**options, "ids": torch.arange(5)},
    }
    own = make(lambda: (nn.Identity(), given)).cast(torch.bfloat16).inputs
    floats, (tied, nothing) = own.kwargs["states"]
    assert tied is own.kwargs["x"]
    assert nothing is None
    assert tied.data_ptr() != shared.data_ptr()
    assert [t.dtype for t in own.tensors()] == [*[torch.bfloat16] * 3, torch.int64]

    fresh = redraw(own, seed=1)
    assert fresh.kwargs["states"][1][0] is fresh.kwargs["x"]
    assert not torch.equal(fresh.kwargs["x"], own.kwargs["x"])
    assert sorted(fresh.kwargs["options"].pop("ids").tolist()) == [0, 1, 2, 3, 4]
    assert fresh.kwargs["options"] == options

    own.assign(redraw(own, seed=1))
    assert own.kwargs["states"][0] is floats
    assert torch.equal(floats, fresh.kwargs["states"][0])


@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("no_such_package.net:build", "cannot import no_such_package.net"),
        (":build", "importing  fails"),
        ("modescope.models.mlp:made_up", "models.mlp has no function 'made_up'"),
        ("modescope.models.mlp:__name__", "__name__ is not a function"),
        ("def build(:", "SyntaxError"),
        ("import torch\ntorch.nn.MadeUp", "has no attribute 'MadeUp'"),  # not: has no build
        ("import no_such_package", "No module named 'no_such_package'"),
    ],
)
def test_a_target_that_cannot_be_imported_is_a_usage_error(
    target: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target, or the source of a user's file."""
    (tmp_path / "user_file.py").write_text(target)
    monkeypatch.syspath_prepend(tmp_path)
    named = target if target.endswith(("build", "made_up", "__name__")) else "user_file:build"
    with pytest.raises(UsageError) as refused:
        building.find(named)
    assert part in str(refused.value)
    assert f"model.target={named}: " in str(refused.value)


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
    with pytest.raises(UsageError, match=r"or start in its folder$"):
        building.find(target)
    monkeypatch.chdir(tmp_path)
    assert Path(building.find(target).__code__.co_filename) == tmp_path / file


def drawn(description: Any, **sizes: int) -> Any:
    torch.manual_seed(0)
    return draw_inputs(parse([[], description]), sizes)[1]


def test_floats_are_standard_normal_or_uniform_between_limits() -> None:
    made = drawn(["seq", 50, "batch"], seq=20, batch=10)
    assert (made.shape, made.dtype) == ((20, 50, 10), torch.float32)
    assert abs(made.mean()) < 0.05
    assert abs(made.std() - 1) < 0.05
    made = drawn({"size": [10_000], "low": 2, "high": 4})
    assert 2 <= made.min() < 2.01
    assert 3.99 < made.max() < 4
    assert abs(made.mean() - 3) < 0.05


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_whole_numbers_reach_low_but_not_high(dtype: str) -> None:
    made = drawn({"size": [1000], "dtype": dtype, "low": 3, "high": 6})
    assert made.dtype == getattr(torch, dtype)
    assert set(made.tolist()) == {3, 4, 5}
    assert set(drawn({"size": [1000], "dtype": dtype, "high": 2}).tolist()) == {0, 1}


def test_whole_ranges_truth_values_and_other_values_can_be_described() -> None:
    whole = {"size": [1000], "dtype": "int64", "low": -(2**63), "high": 2**63 - 1}
    made = drawn([whole, {"size": [100], "dtype": "bool"}, None, {"k": 2, "act": "gelu", "y": []}])
    assert made[0].min() < -(2**61) < 2**61 < made[0].max()
    assert 20 < int(made[1].sum()) < 80
    assert (made[2], made[3]["k"], made[3]["act"], made[3]["y"].shape) == (None, 2, "gelu", ())


@pytest.mark.parametrize("size", [[1], [2, 3]])
def test_whole_numbers_reach_their_limits_in_the_trial(size: list[int]) -> None:
    parsed = parse({"x": {"size": size, "dtype": "int64", "low": 2, "high": 1000}, "y": [4]})
    tried = extreme_inputs(parsed, {})
    assert tried["x"].shape == torch.Size(size)
    assert set(tried["x"].flatten().tolist()) == ({999} if size == [1] else {2, 999})
    assert tried["y"].shape == (4,)


def test_a_class_is_built_with_its_arguments_and_described_inputs(make: Make) -> None:
    described = {"x": ["batch", 4], "states": [[4], ["batch", 1]], "times": 2}
    made = make(Net, described, FOUR, batch=3)
    assert isinstance(made.module, Net)
    assert not made.module.training
    assert (made.inputs.args, made.inputs.kwargs["times"]) == ((), 2)
    assert [t.shape for t in made.inputs.tensors()] == [(4,), (3, 1), (3, 4)]
    try_described_inputs(made, CPU)
    assert made.module.calls == 0
    listed = make(lambda: Net(4), [[2, 4], None]).inputs
    assert (len(listed.args), listed.args[1], listed.kwargs) == (2, None, {})


def test_a_size_reaches_the_class_only_as_an_argument_of_its_name(make: Make) -> None:
    class Sized(Greedy):
        def __init__(self, batch: int) -> None:
            super().__init__(batch=batch)

    assert make(Sized, {"x": ["batch", 4]}, batch=3).module.options == {"batch": 3}
    assert make(Sized, {"x": [2, 4]}, batch=3).module.options == {"batch": 3}
    any_names = make(Greedy, {"x": ["batch", 4], "times": 3}, batch=3)
    assert any_names.module.options == {}
    try_described_inputs(any_names, CPU)


def test_a_forward_that_fails_on_described_inputs_is_refused(make: Make) -> None:
    with pytest.raises(UsageError, match="does not fit Net: RuntimeError: mat1 and mat2"):
        try_described_inputs(make(Net, {"x": [2, 5]}, FOUR), CPU)

    def fail() -> NoReturn:
        raise RuntimeError("CUDA error: device-side assert triggered")

    gpu = Cpu()
    gpu.synchronize = fail  # only waiting for it shows the failure
    with pytest.raises(UsageError, match="does not fit Net: RuntimeError: CUDA error: device-side"):
        try_described_inputs(make(Net, NAMED, FOUR), gpu)


def test_lack_of_memory_is_no_mistake_of_the_user(make: Make) -> None:
    class Hungry(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.ones(2**50)

    def too_large() -> nn.Module:
        raise MemoryError

    try_described_inputs(make(Hungry, NAMED), CPU)
    with pytest.raises(MemoryError):
        make(too_large, {"x": [2]})
