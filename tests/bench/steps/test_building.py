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

Build = Callable[..., Any]

CPU = Cpu()


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


Make = Callable[..., Subject]


def drawn(description: Any, **sizes: int) -> Any:
    torch.manual_seed(0)
    return draw_inputs(parse([[], description]), sizes)[1]


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
    tried = extreme_inputs(parsed, sizes)
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
