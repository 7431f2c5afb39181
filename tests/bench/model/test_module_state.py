"""What calls change in a module is found and put back; what only the first call makes is not."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from modescope.bench.model import module_state
from modescope.bench.model.module_state import Changes, find_changes

WIDTH = 4


class Cache:
    """An object of the user's."""

    def __init__(self) -> None:
        self.k = torch.zeros(8)
        self.length = 0


class Slots:
    __slots__ = ("length",)

    def __init__(self) -> None:
        self.length = 0


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls


class Node:
    def __init__(self, following: Node | None) -> None:
        self.following = following


class Kept(nn.Module):
    shared = 0
    pos: Tensor

    def __init__(self, forward: Callable[[Any], object]) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))
        self.register_buffer("none", None)
        self.count, self.last, self.table = 0, None, None
        self.past: list[int] = []
        self.recent, self.names = deque([1]), {"a"}
        self.known: dict[str, Any] = {"x": 1}
        self.cache, self.parts = Cache(), (Cache(),)
        self.steps = itertools.count()
        self.does = forward
        self.slots, self.counter, self.array = Slots(), Counter(), np.zeros(2)
        self.hidden, self.keys = [nn.BatchNorm1d(WIDTH)], [torch.zeros(1), torch.zeros(1)]
        self.options = {"training": 0}
        self.node = None
        for _ in range(2000):
            self.node = Node(self.node)

    def forward(self, x: Tensor) -> object:
        return self.does(self)


def set_none(net: Any) -> None:
    net.none = torch.ones(2)


def write_weight(net: Any) -> None:
    net.linear.weight.data.add_(1)


def add_attribute(net: Any) -> None:
    net.fresh = torch.ones(1)


def append(net: Any) -> None:
    net.past.append(len(net.past))


def replace_count(net: Any) -> None:
    net.count += 1


def replace_last(net: Any) -> None:
    net.last = torch.ones(2)


def fill_cache(net: Any) -> None:
    net.cache.k[net.cache.length] = 1.0
    net.cache.length += 1


def fill_part(net: Any) -> None:
    net.parts[0].length += 1


def advance(net: Any) -> None:
    net.pos.add_(1)


def make_table(net: Any) -> None:
    if net.table is None:
        net.table = torch.ones(2)
        net.known["y"] = 2


def add_key(net: Any) -> None:
    net.known[f"k{len(net.known)}"] = 1


def replace_key(net: Any) -> None:
    net.known["x"] += 1


def turn(net: Any) -> None:
    net.recent.append(net.recent[-1] + 1)
    net.names.add(str(len(net.names)))


def fill_slot(net: Any) -> None:
    net.slots.length += 1


def count(net: Any) -> None:
    net.counter()


def fill_array(net: Any) -> None:
    net.array += 1


def train_hidden(net: Any) -> None:
    net.hidden[0].num_batches_tracked += 1


def replace_keys(net: Any) -> None:
    net.keys[1] = torch.cat([net.keys[1], torch.ones(1)])


def count_in_class(net: Any) -> None:
    Kept.shared += 1


def use_a_common_name(net: Any) -> None:
    net.options["training"] += 1


def swap_data(net: Any) -> None:
    net.cache.k.data = torch.cat([net.cache.k, torch.ones(1)])


def nothing(net: Any) -> None:
    pass


CHANGED: dict[Callable[[Any], None], list[str]] = {
    nothing: [],
    advance: ["pos[:]"],
    set_none: ["none"],
    write_weight: ["linear.weight[:]"],
    add_attribute: ["fresh"],
    append: ["past"],
    replace_count: ["count"],
    replace_last: ["last"],
    fill_cache: ["cache.k[:]", "cache.length"],
    fill_part: ["parts[0].length"],
    make_table: [],
    replace_key: ["known['x']"],
    turn: ["recent", "names"],
    fill_slot: ["slots.length"],
    count: ["counter.calls"],
    fill_array: ["array"],
    train_hidden: ["hidden[0].num_batches_tracked[:]"],
    replace_keys: ["keys"],
    count_in_class: ["Kept.shared"],
    use_a_common_name: ["options['training']"],
    swap_data: ["cache.k[:]"],
}


def state(net: Any) -> list[Any]:
    flat = [net.count, [*net.past], [*net.recent], sorted(net.names), dict(net.known)]
    flat += [net.pos.tolist(), net.cache.k.tolist(), net.cache.length, net.parts[0].length]
    flat += [net.slots.length, net.counter.calls, net.array.tolist(), net.shared]
    flat += [[each.tolist() for each in net.keys], net.hidden[0].num_batches_tracked.tolist()]
    flat += [net.options["training"]]
    return [*flat, net.linear.weight.tolist(), hasattr(net, "fresh"), net.none, net.last]


def found(forward: Callable[[Any], None], calls: int = 3) -> tuple[Kept, Kept, Changes]:
    torch.manual_seed(0)
    one = Kept(forward)
    torch.manual_seed(0)
    other = Kept(forward)
    changes = find_changes(one, other, lambda: one(torch.ones(2)))
    changes.start.restorer(frozenset(changes.places))()  # of what both share
    return one, other, changes


@pytest.mark.parametrize("forward", CHANGED)
def test_state_that_each_call_changes_is_found_and_put_back(forward: Callable[[Any], None]) -> None:
    one, other, changes = found(forward)
    assert sorted(changes.places) == sorted(CHANGED[forward])
    assert changes.unseen == ("steps",)
    restore = module_state.restorer(other, changes.places)
    before, pos = state(other), other.pos
    for _ in range(3):
        other(torch.ones(2))
        restore()
    if forward is not make_table:
        assert state(other) == before
        changes.start.restorer(frozenset(changes.places))()
        assert state(one) == before
    assert other.pos is pos, "graphs know addresses"


def count_and_make_table(net: Any) -> None:
    """The count says which call is the first, so putting it back would make the table again."""
    if net.count == 0:
        net.table = torch.ones(2)
    net.count += 1


def begin_with_the_second_call(net: Any) -> None:
    if net.table is None:
        net.table = torch.ones(2)
    else:
        net.cache.k[net.cache.length] = 1.0
        net.cache.length += 1


@pytest.mark.parametrize("forward", [count_and_make_table, begin_with_the_second_call])
def test_calls_return_to_the_state_after_the_first_where_that_is_another(
    forward: Callable[[Any], None],
) -> None:
    one, _, changes = found(forward)
    assert changes.warm
    restore = changes.start.restorer(frozenset(changes.places))
    restore()
    table, before = one.table, state(one)
    for _ in range(3):
        one(torch.ones(2))
        assert one.table is table
        restore()
    assert state(one) == before
    assert not found(advance)[2].warm


def test_entries_are_found_by_what_they_are() -> None:
    def write(net: Any) -> None:
        net.count, net.last = float("nan"), torch.device("cpu")
        net.recent.extend([2, 3])

    _, other, changes = found(write)
    assert changes.places == ("recent",)
    restore = module_state.restorer(other, changes.places)
    other(torch.ones(2))
    restore()
    assert list(other.recent) == [1]


def test_what_is_put_back_may_be_elements_or_not() -> None:
    for forward, has_elements in ((fill_cache, True), (replace_count, False)):
        _, other, changes = found(forward)
        assert bool(module_state.restorer(other, changes.places).values) is has_elements


def test_training_changes_floats_and_norms_but_no_positions() -> None:
    net = nn.Sequential(nn.BatchNorm1d(WIDTH), Kept(nothing))
    places = ("0.num_batches_tracked[:]", "0.running_mean[:]", "1.linear.weight[:]", "1.pos[:]")
    kept = module_state.put_back_in_training(net, (*places, "1.count", "1.cache.k[:]"))
    assert kept == ("1.pos[:]", "1.count", "1.cache.k[:]")


def test_places_are_named_once() -> None:
    assert module_state.name_places(["k", "k[:]", "a.b[:]"]) == "a.b, k"
    assert module_state.name_places([]) is None


def test_history_that_a_call_gives_a_buffer_is_dropped() -> None:
    def write(net: Any) -> None:
        net.cache.k[:4] = net.linear(torch.ones(WIDTH))

    one, other, changes = found(write)
    assert changes.places == ("cache.k[:]",)
    restore = module_state.restorer(other, changes.places)
    for _ in range(2):
        other(torch.ones(2))
        assert not other.cache.k.is_leaf
        restore()
        assert (other.cache.k.is_leaf, other.cache.k.requires_grad) == (True, False)
    one.register_buffer("total", torch.zeros(WIDTH))
    with module_state.keep_state(one):
        one.total += one.linear(torch.ones(WIDTH))
    assert one.total.is_leaf


def test_state_made_in_inference_mode_is_put_back() -> None:
    with torch.inference_mode():
        one, other = Kept(advance), Kept(advance)
        changes = find_changes(one, other, lambda: one(torch.ones(2)))
    restore = module_state.restorer(other, changes.places)
    with torch.inference_mode():
        other(torch.ones(2))
    restore()
    assert other.pos.item() == 0
