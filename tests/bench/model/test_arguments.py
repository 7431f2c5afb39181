"""What a call changes of its arguments is seen, and put back before the next call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu, Prepared
from modescope.bench.model import arguments
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
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
    made = Subject(Calls(function), Inputs(args, {}))
    return replace(made, changes=arguments.find_changes(made))


def grow(x: Tensor) -> None:
    x += x * torch.ones((), requires_grad=True)


TENSORS: dict[str, Callable[[Tensor], object]] = {
    "in place": lambda x: x.mul_(0.5),
    "by an equal value": lambda x: x.add_(0),
    "past the version": lambda x: x.data.mul_(0.5),
    "a number becomes nan": lambda x: x[1].fill_(torch.nan),
    "another shape": lambda x: x.unsqueeze_(0),
    "other memory": lambda x: x.set_(torch.ones(3).untyped_storage()),
    "wants gradients": lambda x: x.requires_grad_(),
    "gets a history": grow,
}


@pytest.mark.parametrize("function", TENSORS.values(), ids=TENSORS)
def test_each_call_begins_with_the_same_tensor(function: Callable[[Tensor], object]) -> None:
    example, begun = torch.tensor([1.0, 2.0, torch.nan]), []

    def notes(x: Tensor, y: Tensor) -> None:
        begun.append(str((y.tolist(), y.requires_grad, y.grad_fn, y.data_ptr())))
        function(y)

    made = subject(notes, torch.ones(2), example)
    assert made.changes == ("[1]",)
    step = modes.build(made, variant(), True, Cpu(), ONE_CALL).step
    del begun[:]
    for _ in range(3):
        step()
    assert len(begun) == 3
    assert len(set(begun)) == 1
    assert begun[0].startswith("([1.0, 2.0, nan], False, None, ")


def last(content: dict[str, Any]) -> None:
    content["x"] = content.pop("x")


CONTAINERS: dict[str, tuple[Callable[[Any], object], Any, tuple[str, ...]]] = {
    "popped": (lambda xs: xs.pop(), [torch.ones(2), torch.ones(2)], ("[0][1]",)),
    "a new key": (lambda d: d.update(y=1), {"x": torch.ones(2)}, ("[0]['y']",)),
    "counted": (lambda d: d.update(y=2), {"x": torch.ones(2), "y": 1}, ("[0]['y']",)),
    "another order": (last, {"x": torch.ones(2), "y": 1}, ("[0]['x']", "[0]['y']")),
    "sparse": (lambda x: x.mul_(0.5), torch.eye(3).to_sparse(), ("[0]",)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_changed_container_has_the_places_that_differ(name: str) -> None:
    function, content, places = CONTAINERS[name]
    assert subject(function, content).changes == places


def test_what_is_only_read_is_not_changed() -> None:
    def reads(x: Tensor, i: Tensor, xs: list[float], key: set[int], source: Any) -> Tensor:
        return x[i] * xs[0] + len(key) + torch.rand(2, generator=source)

    undefined = torch.tensor([torch.nan, torch.inf, -0.0])
    read = subject(reads, undefined, torch.arange(2), [torch.nan], {1}, torch.Generator())
    assert read.changes == ()
    assert subject(lambda x, y: x @ y, torch.eye(3).to_sparse(), torch.ones(3, 0)).changes == ()
    assert subject(lambda x: x * 2, torch.ones((), dtype=torch.complex64).conj()).changes == ()
    assert not isinstance(arguments.call_of(read, read.module), Prepared), "it costs nothing"


def test_containers_are_new_in_each_call_and_the_example_stays() -> None:
    xs = [torch.ones(2), torch.ones(2)]
    made = subject(lambda xs: [xs.pop().mul_(3.0) for _ in range(len(xs))], xs)
    step: Any = arguments.call_of(made, made.module)
    for _ in range(3):
        assert [each.tolist() for each in step()] == [[3.0, 3.0]] * 2
    assert [each.tolist() for each in xs] == [[1.0, 1.0]] * 2
    made.inputs.assign(Inputs(([torch.full((2,), 5.0)] * 2,), {}))  # as a check does
    assert [each.tolist() for each in step()] == [[15.0, 15.0]] * 2


def test_a_captured_call_is_replayed_on_values_that_were_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = subject(lambda x: x.mul_(3.0), torch.ones(2))
    device = emulated(monkeypatch)
    step: Any = modes.build(made, variant(graph=True), True, device, ONE_CALL).step
    assert [step().tolist() for _ in range(3)] == [[3.0, 3.0]] * 3


@pytest.mark.parametrize("expanded", [False, True])
def test_a_graph_has_inputs_of_its_own_into_which_each_call_copies(
    expanded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What forward changes is put back before the call, so nothing is copied twice."""
    example = torch.ones(1).expand(2) if expanded else torch.ones(2)
    made = subject(lambda x, y: y.mul_(3.0) + x, example, torch.full((2,), 2.0))
    device = emulated(monkeypatch)
    built = modes.build(made, variant(graph=True), True, device, ONE_CALL)
    step: Any = built.step
    assert [step().tolist() for _ in range(2)] == [[7.0, 7.0]] * 2
    [(read, x)] = built.subject.copied(changed=False)
    [(_, y)] = built.subject.copied(changed=True)
    assert read.data_ptr() != x.data_ptr()
    assert (x is made.inputs.args[0], y is made.inputs.args[1]) == (True, True)
    assert read.stride() == x.stride()
    batch = torch.full((1,), 5.0).expand(2) if expanded else torch.full((2,), 5.0)
    values = Inputs((batch, torch.full((2,), 3.0)), {})
    built.subject.inputs.assign(values)  # as another batch, and as a check does
    assert step().tolist() == [14.0, 14.0]
    read.fill_(8.0)
    assert step().tolist() == [14.0, 14.0]
    live: Any = built.live
    assert live().tolist() == [14.0, 14.0], "which is only what was captured"


def test_a_graph_copies_an_input_that_requires_grad(monkeypatch: pytest.MonkeyPatch) -> None:
    made = subject(lambda x: x * 3.0, torch.ones(2, requires_grad=True))
    device = emulated(monkeypatch)
    built = modes.build(made, variant(graph=True), True, device, ONE_CALL)
    built.subject.inputs.assign(Inputs((torch.full((2,), 2.0),), {}))
    step: Any = built.step
    assert step().tolist() == [6.0, 6.0]


def test_tensors_on_another_device_than_the_graph_are_not_copied() -> None:
    made = replace(subject(lambda x: x + 1.0, torch.ones(2)), graphs_on=torch.device("meta"))
    assert made.copied(changed=False) == []


def test_a_tensor_that_is_given_twice_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2)
    made = subject(lambda q, k: q + k, x, x)
    built = modes.build(made, variant(graph=True), True, emulated(monkeypatch), ONE_CALL)
    assert len(built.subject.copied(changed=False)) == 1
    step: Any = built.step
    x.fill_(4.0)
    assert step().tolist() == [8.0, 8.0]


def test_what_is_not_captured_reads_the_inputs_themselves() -> None:
    made = subject(lambda x: x + 1.0, torch.ones(2))
    built = modes.build(made, variant(), True, Cpu(), ONE_CALL)
    assert built.subject.copied(changed=False) == []
    assert built.step is built.live


def test_graphs_of_forward_and_backward_copy_what_they_read_but_not_what_forward_changes() -> None:
    made = subject(lambda x, y: y.mul_(3.0) + x, torch.ones(2), torch.full((2,), 2.0))
    x, y = arguments.sample_of(made).args
    own_x, own_y = made.given.args
    assert (x is not own_x, y is own_y) == (True, True)
    assert x.tolist() == own_x.tolist()


def test_only_what_is_changed_is_copied_and_what_shares_memory_shares_it_again() -> None:
    memory = torch.ones(2, 2)
    made = subject(lambda x, y, z: x.mul_(z), memory, memory.t(), torch.full((2,), 2.0))
    assert made.changes == ("[0]", "[1]")
    x, y, z = made.given.args
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert x.data_ptr() != made.inputs.args[0].data_ptr()
    assert z is made.inputs.args[2]
