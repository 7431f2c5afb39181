"""What a call changes of its arguments is seen, and put back before the next call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu, Prepared
from modescope.bench.records.errors import UsageError
from modescope.bench.steps import arguments, modes
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Inputs, Subject
from tests.helpers.emulated_graphs import emulated
from tests.helpers.probe_models import variant


class Calls(nn.Module):
    """A model that is a function of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def subject(function: Callable[..., Any], *args: Any) -> Subject:
    return Subject(Calls(function), Inputs(args, {}))


def changes(function: Callable[..., Any], *args: Any) -> tuple[str, ...]:
    return arguments.find_changes(subject(function, *args))


def write(x: Tensor) -> None:
    x.numpy()[0] = 5.0


def grow(x: Tensor) -> None:
    x += x * torch.ones((), requires_grad=True)


TENSORS: dict[str, Callable[[Tensor], object]] = {
    "in place": lambda x: x.mul_(0.5),
    "past the version": lambda x: x.data.mul_(0.5),
    "by NumPy": write,
    "by a view": lambda x: x[0].fill_(7.0),
    "a number becomes nan": lambda x: x[1].fill_(torch.nan),
    "transposed": lambda x: x.unsqueeze_(0),
    "other memory": lambda x: x.set_(torch.ones(3).untyped_storage()),
    "wants gradients": lambda x: x.requires_grad_(),
    "gets a history": grow,
}


@pytest.mark.parametrize("function", TENSORS.values(), ids=TENSORS)
def test_a_changed_tensor_has_its_place(function: Callable[[Tensor], object]) -> None:
    assert changes(lambda x, y: function(y), torch.ones(2), torch.rand(3) + 1) == ("[1]",)


def last(content: dict[str, Any]) -> None:
    content["x"] = content.pop("x")


CONTAINERS: dict[str, tuple[Callable[[Any], object], Any, tuple[str, ...]]] = {
    "popped": (lambda xs: xs.pop(), [torch.ones(2), torch.ones(2)], ("[0][1]",)),
    "appended": (lambda xs: xs.append(1), [torch.ones(2)], ("[0][1]",)),
    "a new key": (lambda d: d.update(y=1), {"x": torch.ones(2)}, ("[0]['y']",)),
    "a lost key": (lambda d: d.pop("y"), {"x": torch.ones(2), "y": 1}, ("[0]['y']",)),
    "counted": (lambda d: d.update(y=2), {"x": torch.ones(2), "y": 1}, ("[0]['y']",)),
    "another order": (last, {"x": torch.ones(2), "y": 1}, ("[0]['x']", "[0]['y']")),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_changed_container_has_the_places_that_differ(name: str) -> None:
    function, content, places = CONTAINERS[name]
    assert changes(function, content) == places


def test_what_is_only_read_is_not_changed() -> None:
    generator = torch.Generator()

    def reads(x: Tensor, i: Tensor, xs: list[float], key: set[int], source: Any) -> Tensor:
        return x[i] * xs[0] + len(key) + torch.rand(2, generator=source)

    undefined = torch.tensor([torch.nan, torch.inf, -0.0])
    assert changes(reads, undefined, torch.arange(2), [torch.nan], {1}, generator) == ()
    sparse = torch.eye(3).to_sparse()
    assert changes(lambda x, y: x @ y, sparse, torch.ones(3, 0, dtype=torch.float32)) == ()
    assert changes(lambda x: x * 2, torch.ones((), dtype=torch.complex64).conj()) == ()


@pytest.mark.parametrize(
    "function",
    [lambda x, y: y.untyped_storage().resize_(0), lambda x, y: y.resize_(30)],
    ids=["freed", "resized"],
)
def test_what_cannot_be_put_back_is_refused_by_name(function: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match=r"argument \[1\]"):
        changes(function, torch.ones(2), torch.ones(3))


def step_of(function: Callable[..., Any], *args: Any, **axes: Any) -> Any:
    made = subject(function, *args)
    made = replace(made, changes=arguments.find_changes(made))
    device = emulated(axes.pop("patch")) if axes.get("graph") else Cpu()
    return modes.build(made, variant(**axes), True, device, ONE_CALL)


@pytest.mark.parametrize("function", TENSORS.values(), ids=TENSORS)
def test_each_call_begins_with_the_same_tensor(function: Callable[[Tensor], object]) -> None:
    example, begun = torch.tensor([1.0, 2.0, torch.nan]), []

    def notes(x: Tensor) -> None:
        begun.append((x.tolist(), x.requires_grad, x.grad_fn, x.data_ptr(), id(x)))
        function(x)

    step = step_of(notes, example).step
    del begun[:]
    calls = [step() for _ in range(3)]
    assert len(calls) == 3
    assert [str(each[:4]) for each in begun] == [str(begun[0][:4])] * 3
    assert str(begun[0][0]) == str(example.tolist())
    assert begun[0][1:3] == (False, None)


def test_containers_are_new_in_each_call_and_the_example_stays() -> None:
    xs = [torch.ones(2), torch.ones(2)]
    built = step_of(lambda xs: [xs.pop().mul_(3.0) for _ in range(len(xs))], xs)
    for _ in range(3):
        assert [each.tolist() for each in built.step()] == [[3.0, 3.0]] * 2
    assert [each.tolist() for each in xs] == [[1.0, 1.0]] * 2


def test_fresh_values_for_a_check_reach_the_call() -> None:
    built = step_of(lambda x: x.mul_(2.0), torch.ones(2))
    built.subject.inputs.assign(Inputs((torch.full((2,), 5.0),), {}))
    assert [built.step().tolist() for _ in range(2)] == [[10.0, 10.0]] * 2


def test_only_what_is_changed_is_copied() -> None:
    assert not isinstance(step_of(lambda x: x + 1, torch.ones(2)).step, Prepared)
    built = step_of(lambda x, y: y.add_(x), torch.ones(2), torch.ones(2))
    pairs = zip(built.subject.inputs.tensors(), built.subject.given.tensors(), strict=True)
    assert [kept is given for kept, given in pairs] == [True, False]


def test_a_captured_call_is_replayed_on_values_that_were_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = step_of(lambda x: x.mul_(3.0), torch.ones(2), graph=True, patch=monkeypatch)
    assert [built.step().tolist() for _ in range(3)] == [[3.0, 3.0]] * 3


def test_writing_an_equal_value_is_a_change() -> None:
    assert changes(lambda x: x.add_(0), torch.ones(2)) == ("[0]",)
    assert changes(lambda x: x.mul_(0.5), torch.eye(3).to_sparse()) == ("[0]",)


def test_arguments_that_share_memory_share_it_in_every_call() -> None:
    memory = torch.ones(2, 2)
    both = subject(lambda x, y: x.mul_(2), memory, memory.t())
    both = replace(both, changes=arguments.find_changes(both))
    x, y = both.given.args
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert x.data_ptr() != both.inputs.args[0].data_ptr()
