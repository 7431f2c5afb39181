"""Building a model as users write them, copies that share nothing, inputs drawn anew."""

from __future__ import annotations

import math
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
from modescope.bench.steps import model_and_inputs
from modescope.bench.steps.model_and_inputs import Inputs, Subject, redraw, state_kept
from tests.helpers.probe_models import counts

Build = Callable[..., Any]

SEEDED = torch.Generator().manual_seed(0)


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
    made = model_and_inputs.build(model, {"batch": 7})
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
    inputs = model_and_inputs.build(from_user(lambda: (nn.Identity(), example(x, y))), {}).inputs
    assert [torch.equal(a, b) for a, b in zip(inputs.tensors(), (x, y), strict=False)] == [
        True for _ in names
    ]
    assert list(inputs.kwargs) == [name for name in names if name]


def test_inputs_are_detached(from_user: Callable[[Build], Model]) -> None:
    x = torch.randn(2, requires_grad=True) * 2
    made = model_and_inputs.build(from_user(lambda: (nn.Identity(), (x,))), {})
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
        model_and_inputs.build(from_user(build), {})
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
        model_and_inputs.build(from_user(lambda: (nn.Identity(), example)), {})
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
    made = model_and_inputs.build(from_user(lambda: (nn.Identity(), given)), {})
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
        model_and_inputs.build(from_user(lambda: nn.LSTM(2, 3)), {})
    assert str(refused.value) == (
        "user_net:build returned LSTM without inputs; describe them, as in "
        "'+model.inputs={input: [8, 64]}', or return (torch.nn.Module, example inputs)"
    )


@pytest.mark.parametrize("sizes", [{"batch": 1, "depth": 2}, {"depth": 2}])
def test_sizes_unknown_to_the_function_are_a_usage_error(
    sizes: dict[str, int], from_user: Callable[[Build], Model]
) -> None:
    with pytest.raises(UsageError) as refused:
        model_and_inputs.build(from_user(linear), sizes)
    assert str(refused.value) == (
        "shape.depth=2: user_net:build takes no depth (its arguments are batch, width); leave it "
        "out"
    )


def test_a_function_may_take_any_size(from_user: Callable[[Build], Model]) -> None:
    made = model_and_inputs.build(from_user(lambda **sizes: linear(**sizes)), {"batch": 7})
    assert made.inputs.args[0].shape == (7, 3)


def test_a_missing_argument_is_a_usage_error(from_user: Callable[[Build], Model]) -> None:
    with pytest.raises(UsageError, match="missing a required argument: 'width'"):
        model_and_inputs.build(from_user(lambda width: linear(width=width)), {})


def test_a_callable_without_a_signature_is_a_usage_error(
    from_user: Callable[[Build], Model],
) -> None:
    with pytest.raises(UsageError, match="cannot be called with"):
        model_and_inputs.build(from_user(type), {})


def test_values_refused_by_the_function_are_a_usage_error() -> None:
    sizes = {"batch": 1, "seq": 2, "width": 6, "heads": 4}
    with pytest.raises(UsageError, match="width=6 cannot be split evenly over heads=4"):
        model_and_inputs.build(Model("transformer", "modescope.models.transformer:build"), sizes)


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
        model_and_inputs.find(target)
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
        model_and_inputs.find("user_file:build")
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
        model_and_inputs.find(target)
    assert str(far.value).endswith(
        "install it, put its folder on PYTHONPATH, or start in its folder"
    )
    monkeypatch.chdir(tmp_path)
    assert Path(model_and_inputs.find(target).__code__.co_filename) == tmp_path / file


class Everything(nn.Module):
    """Every kind of tensor that a cast treats differently."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.tied = self.weight
        self.register_buffer("mean", torch.randn(3))
        self.register_buffer("count", torch.tensor(2**24 + 1))
        self.register_buffer("rotation", torch.randn(3, dtype=torch.complex64))
        self.register_buffer("missing", None)


@pytest.fixture
def everything() -> Subject:
    args = (torch.randn(4, 3), torch.arange(5), torch.tensor([True, False]))
    return Subject(Everything().eval(), Inputs(args, {"scale": torch.tensor(2.0)}))


def storages(of: Subject) -> set[int]:
    tensors = [*of.module.parameters(), *of.module.buffers(), *of.inputs.tensors()]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_copy_shares_no_storage(everything: Subject, dtype: torch.dtype) -> None:
    own = everything.cast(dtype)
    assert len(storages(own)) == len(storages(everything)) == 8
    assert not storages(own) & storages(everything)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_cast_changes_floating_tensors_only(everything: Subject, dtype: torch.dtype) -> None:
    own = everything.cast(dtype)
    tensors = {**dict(own.module.named_parameters()), **dict(own.module.named_buffers())}
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {
        "weight": dtype,
        "mean": dtype,
        "count": torch.int64,
        "rotation": torch.complex64,  # Module.to(dtype) would drop the imaginary part
    }
    assert torch.equal(tensors["rotation"], everything.module.get_buffer("rotation"))
    assert tensors["count"] == 2**24 + 1
    dtypes = [tensor.dtype for tensor in own.inputs.tensors()]
    assert dtypes == [dtype, torch.int64, torch.bool, dtype]
    assert everything.module.get_parameter("weight").dtype == torch.float32


def test_tied_weights_stay_tied(everything: Subject) -> None:
    module = everything.cast(torch.bfloat16).module
    assert module.tied is module.weight


def test_an_expanded_input_gets_its_own_memory() -> None:
    made = Subject(nn.Identity(), Inputs((torch.ones(3).expand(4, 3),), {}))
    own = made.cast(torch.float32).inputs
    own.assign(Inputs((torch.arange(12.0).view(4, 3),), {}))
    assert own.args[0][3].tolist() == [9.0, 10.0, 11.0]


def test_to_moves_inputs_and_weights(everything: Subject) -> None:
    moved = everything.to(torch.device("meta"))
    assert {t.device.type for t in moved.inputs.tensors()} == {"meta"}
    assert {p.device.type for p in moved.module.parameters()} == {"meta"}


def test_assign_writes_in_place(everything: Subject) -> None:
    inputs = everything.inputs
    where = [tensor.data_ptr() for tensor in inputs.tensors()]
    inputs.assign(inputs.map(torch.zeros_like))
    assert [tensor.data_ptr() for tensor in inputs.tensors()] == where
    assert all(not tensor.any() for tensor in inputs.tensors())


def test_assign_refuses_another_number_of_tensors() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Inputs((torch.ones(1),), {}).assign(Inputs((), {}))


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "replaced"])
@pytest.mark.parametrize("grad", [torch.enable_grad, torch.inference_mode])
def test_state_is_restored_after_a_block(in_place: bool, grad: Any) -> None:
    module, (x,) = counts(in_place)
    before = module.get_buffer("calls")
    with state_kept(module):
        for _ in range(2):
            with grad():
                module(x)
        assert module.get_buffer("calls") == 3
    assert module.get_buffer("calls") is before
    assert before == 1
    module(x)
    assert module.get_buffer("calls") == 2


def test_state_replaced_under_inference_mode_is_restored() -> None:
    module, (x,) = counts(in_place=False)
    with torch.inference_mode():
        module(x)
    before = module.get_buffer("calls")
    assert before.is_inference()
    with state_kept(module), torch.inference_mode():
        module(x)
        before.zero_()
    assert module.get_buffer("calls") is before
    assert before == 2


def test_state_is_restored_after_a_new_buffer_or_a_failed_call() -> None:
    module = Everything()

    def call() -> None:
        module.missing = torch.ones(1)
        module.get_buffer("mean").zero_()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), state_kept(module):
        call()
    assert module.missing is None
    assert module.get_buffer("mean").any()


def drawn(example: Tensor, seed: int = 1) -> Tensor:
    return redraw(Inputs((example,), {}), seed).tensors()[0]


@pytest.mark.parametrize(
    "example",
    [
        torch.randn(64, 3, generator=SEEDED),
        torch.randn(64, generator=SEEDED).bfloat16(),
        torch.rand(8, 8, dtype=torch.float64, generator=SEEDED) + 3,
        torch.randn(8, 5, generator=SEEDED).t(),
    ],
)
def test_fresh_floats_look_like_the_example(example: Tensor) -> None:
    fresh = drawn(example)
    assert fresh.dtype == example.dtype
    assert fresh.shape == example.shape
    assert (fresh != example).double().mean() > 0.9
    assert fresh.min() >= example.min()
    assert fresh.max() <= example.max()
    spread = example.double().std()
    assert (fresh.double().mean() - example.double().mean()).abs() < 0.5 * spread
    assert 0.5 * spread < fresh.double().std() < 1.5 * spread


@pytest.mark.parametrize(
    "example", [torch.arange(50), torch.arange(50).view(5, 10), torch.arange(50) < 20]
)
def test_integers_are_permuted(example: Tensor) -> None:
    fresh = drawn(example)
    assert fresh.dtype == example.dtype
    assert fresh.shape == example.shape
    assert not torch.equal(fresh, example)
    assert torch.equal(fresh.flatten().sort().values, example.flatten().sort().values)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 7.3, -2.0, 1e-6, 1e6])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (1000,), (33, 7)])
def test_fresh_constants_change_and_keep_their_sign(value: float, shape: tuple[int, ...]) -> None:
    example = torch.full(shape, value)
    fresh = drawn(example)
    assert (fresh != example).all()
    assert fresh.isfinite().all()
    if value:
        assert (fresh.sign() == math.copysign(1, value)).all()


def test_infinities_of_a_mask_are_kept() -> None:
    mask = torch.full((6, 6), -math.inf).triu(1)
    fresh = drawn(mask)
    assert torch.equal(fresh.isinf(), mask.isinf())
    assert fresh[~mask.isinf()].all()
    assert torch.equal(drawn(torch.full((3,), -math.inf)), torch.full((3,), -math.inf))


def test_nothing_is_drawn_for_an_empty_tensor() -> None:
    assert drawn(torch.empty(0, 3)).shape == (0, 3)
    assert drawn(torch.empty(0, dtype=torch.int64)).shape == (0,)


def test_seed_decides_the_draw(everything: Subject) -> None:
    state = torch.get_rng_state()
    draws = [redraw(everything.inputs, seed).tensors() for seed in (1, 1, 2)]
    assert torch.equal(torch.get_rng_state(), state)  # the global generator is not advanced
    assert all(map(torch.equal, draws[0], draws[1]))
    assert not torch.equal(draws[0][0], draws[2][0])
    assert set(redraw(everything.inputs, 1).kwargs) == {"scale"}
