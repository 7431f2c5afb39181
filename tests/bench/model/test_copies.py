"""Further modules: by the builder or as copies, what they lack, and what they have in common."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from modescope.bench.devices.devices import Cpu
from modescope.bench.model import building, copies, plain_call
from modescope.bench.model.copies import Reached, copy_module, describe, differences
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.records.errors import UsageError
from tests.helpers.probe_models import case, linear, model, variant

WIDTH = 4


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))


class Tagged(nn.Parameter):
    def __new__(cls, data: Tensor, requires_grad: bool = True, bits: int = 8) -> Tagged:
        made = super().__new__(cls, data, requires_grad)
        vars(made)["bits"] = bits
        return made


def with_hook(net: nn.Sequential) -> None:
    net.get_parameter("0.weight").register_hook(lambda gradient: gradient * 2)


def with_hook_after(net: nn.Sequential) -> None:
    net.get_parameter("0.weight").register_post_accumulate_grad_hook(lambda weight: None)


def with_attribute(net: nn.Sequential) -> None:
    net.get_parameter("0.weight").scale = 0.5  # type: ignore[attr-defined]


def with_subclass(net: Any) -> None:
    net[0].weight = Tagged(torch.randn(WIDTH, WIDTH), bits=4)


def with_shared_storage(net: Any) -> None:
    net[0].weight.data = net[1].weight.data


def pruned(net: Any) -> None:
    prune.l1_unstructured(net[0], "weight", amount=0.4)


def locked(net: Any) -> None:
    net[1].lock = threading.Lock()


def untouched(net: nn.Sequential) -> None:
    pass


LOST: dict[Callable[[nn.Sequential], None], str | None] = {
    untouched: None,
    with_hook: "hooks of 0.weight (1 → none)",
    with_hook_after: "hooks of 0.weight (1 → none)",
    with_attribute: "attributes of 0.weight (scale=0.5 → none)",
    with_subclass: "attributes of 0.weight (bits=4 → bits=8)",
    with_shared_storage: "the memory of 1.weight (0.weight → 1.weight)",
    pruned: "0.weight (Tensor) cannot be copied",
    locked: "1.lock (lock) cannot be copied",
}


@pytest.mark.parametrize("change", LOST)
def test_what_a_deep_copy_loses_is_named(change: Callable[[nn.Sequential], None]) -> None:
    net, expected = layers(), LOST[change]
    change(net)
    why = copies.why_not_copied(net)
    assert why is None if expected is None else expected in str(why)


DIFFERENT: dict[str, Callable[[Any], object]] = {
    "the type of 1": lambda net: net.__setitem__(1, nn.Identity()),
    "forward_hooks of 1": lambda net: net[1].register_forward_hook(lambda *_: None),
    "the form of 0.bias": lambda net: setattr(net[0], "bias", nn.Parameter(torch.ones(1))),
    "the type of 1.gain": lambda net: setattr(net[1], "gain", 2.0),
    "the module 1": lambda net: net.__setitem__(1, net[0]),
    "the gradient of 0.weight": lambda net: net[0].weight.requires_grad_(False),
}


@pytest.mark.parametrize("key", DIFFERENT)
def test_modules_of_another_structure_differ(key: str) -> None:
    one, other = layers(), layers()
    assert not differences(describe(one), describe(other))
    DIFFERENT[key](other)
    assert any(each.startswith(key + " (") for each in differences(describe(one), describe(other)))


def test_values_and_mode_are_loaded_in_place() -> None:
    one: Any = layers()
    other: Any = layers()
    one[2](torch.randn(8, WIDTH))
    one[1].eval()
    one[1].table, other[1].table = torch.ones(3), torch.zeros(3)
    kept = [*other.parameters(), *other.buffers()]
    copies.load(other, one)
    assert all(map(torch.equal, other.state_dict().values(), one.state_dict().values()))
    assert [each is now for each, now in zip(kept, other.parameters(), strict=False)] == [True] * 6
    assert (other[1].training, other[0].training) == (False, True)
    assert torch.equal(other[1].table, torch.ones(3))
    assert not copies.shares_memory(one, other)


def test_memory_in_common_is_seen() -> None:
    one: Any = layers()
    other: Any = layers()
    other[0].weight.data = one[0].weight.data[:]
    assert copies.shares_memory(one, other)
    assert copies.shares_memory(one, nn.Sequential(one[0]))


def test_a_copy_that_uses_the_original_is_seen() -> None:
    net: Any = layers()
    before = net[0].forward
    net[0].forward = lambda x: before(x) + 1
    made = copy_module(net)
    for own, other, place in ((made, net, "0.weight"), (net, made, None)):
        reached = Reached(other)
        with reached:
            own(torch.randn(2, WIDTH))
        assert reached.place == place


def test_a_cast_keeps_other_dtypes_unless_all_are_asked_for() -> None:
    net: Any = nn.Module()
    net.one, net.two = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2).double())
    net.register_buffer("narrow", torch.ones(2).to(torch.float8_e4m3fn))
    inputs = Inputs((torch.ones(2), torch.ones(2).double(), torch.ones(2).bfloat16()), {})
    subject = Subject(net, inputs)
    for every, expected in (
        (False, ["bfloat16", "float64", "float8_e4m3fn", "bfloat16", "float64", "bfloat16"]),
        (True, ["bfloat16"] * 6),
    ):
        own = subject.cast(torch.bfloat16, every)
        assert [str(each.dtype).removeprefix("torch.") for each in own.tensors()] == expected


# By the builder


def drawn(monkeypatch: pytest.MonkeyPatch, build: Callable[[], nn.Module]) -> plain_call.Drawn:
    monkeypatch.setattr(
        building, "find", lambda target, key="": lambda: (build(), (torch.randn(2, WIDTH),))
    )
    return plain_call.build_drawn(case(model(linear), variant()), Cpu())


@pytest.mark.parametrize("change", LOST)
def test_what_a_copy_would_lose_is_in_every_module(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[nn.Sequential], None]
) -> None:
    def build() -> nn.Module:
        net = layers()
        change(net)
        return net

    made = drawn(monkeypatch, build)
    further = made.subject.cast(torch.float32).module
    known = [describe(each) for each in (made.to_call, made.subject.module, further)]
    assert known[0] == known[1] == known[2]
    weights = [each.state_dict() for each in (made.to_call, made.subject.module, further)]
    for other in weights[1:]:
        assert all(torch.equal(one, other[name]) for name, one in weights[0].items())


@pytest.mark.parametrize("slow", [False, True])
def test_a_builder_of_one_module_is_not_called_again(
    monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    one, calls = layers(), list[int]()

    def build() -> nn.Module:
        calls.append(1)
        return one

    monkeypatch.setattr(plain_call, "SLOW_BUILD_S", -1.0 if slow else 100.0)
    made = drawn(monkeypatch, build)
    assert len(calls) == (1 if slow else 2)
    assert made.subject.module is one
    assert not copies.shares_memory(one, made.to_call)
    assert not copies.shares_memory(one, made.subject.cast(None).module)


def test_one_module_that_cannot_be_copied_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = layers()
    pruned(one)
    with pytest.raises(UsageError, match=r"same module each time, and 0\.weight .*builder"):
        drawn(monkeypatch, lambda: one)


def test_a_slow_builder_is_called_if_a_copy_would_lose_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build() -> nn.Module:
        net = layers()
        with_hook(net)
        return net

    monkeypatch.setattr(plain_call, "SLOW_BUILD_S", -1.0)
    assert drawn(monkeypatch, build).subject.again is not None


def test_each_module_is_built_from_the_same_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = [random.random(), np.random.rand(), torch.rand(()).item()]

    before = torch.get_rng_state()
    made: Any = drawn(monkeypatch, Draws)
    after = torch.get_rng_state()
    assert not torch.equal(before, after)
    assert made.subject.module.numbers == made.to_call.numbers
    assert made.subject.cast(None).module.numbers == made.to_call.numbers
    assert torch.equal(torch.get_rng_state(), after), "further modules draw from a copy"


def test_a_builder_that_works_once_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def build() -> nn.Module:
        calls.append(1)
        if len(calls) > 1:
            raise KeyError("registered already")
        return layers()

    made = drawn(monkeypatch, build)
    assert (made.subject.again, len(calls)) == (None, 2)
    assert not copies.shares_memory(made.subject.module, made.to_call)


@pytest.mark.parametrize("copyable", [True, False])
def test_modules_that_are_numbered_are_copied_if_they_can_be(
    monkeypatch: pytest.MonkeyPatch, copyable: bool
) -> None:
    numbers = iter(range(100))

    def build() -> nn.Module:
        net: Any = layers()
        net[0].number = next(numbers)
        if not copyable:
            locked(net)
        made: nn.Module = net
        return made

    made: Any = drawn(monkeypatch, build)
    assert (made.subject.again is None) is copyable
    assert (made.subject.module[0].number == made.to_call[0].number) is copyable
