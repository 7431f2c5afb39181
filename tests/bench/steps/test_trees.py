"""Containers as models take and return them: walked in order, and rebuilt around new tensors."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modescope.bench.steps import trees

X, Y = torch.tensor([1.0]), torch.tensor([2.0])

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Frozen:
    x: Tensor
    y: Any


@dataclass
class Counted:
    x: Tensor
    y: Tensor
    size: int = field(init=False, default=3)


@dataclass
class WithoutKeys:
    """Registered as diffusers registers its outputs: without paths."""

    x: Tensor
    y: Tensor


class Output(OrderedDict[str, Tensor]):
    """As in transformers and diffusers: made of attributes, used as a dict."""

    def __init__(self, *, x: Tensor, y: Tensor) -> None:
        super().__init__(x=x, y=y)


class Cache:
    """Registered, without paths and without fields."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.held = [x, y]


pytree.register_pytree_node(
    WithoutKeys, lambda w: ([w.x, w.y], None), lambda parts, _: WithoutKeys(*parts)
)
pytree.register_pytree_node(
    Output,
    lambda o: ([*o.values()], None),
    lambda parts, _: Output(**dict(zip("xy", parts, strict=True))),
)
pytree.register_pytree_node(Cache, lambda c: (c.held, None), lambda parts, _: Cache(*parts))

NAMED = ["['x']", "['y']"]
NUMBERED = ["[0]", "[1]"]
FIELDS = [".x", ".y"]

TREES: dict[str, tuple[Any, list[str]]] = {
    "tuple": ((X, Y), NUMBERED),
    "list": ([X, Y], NUMBERED),
    "named tuple": (Pair(X, Y), FIELDS),
    "returned by torch": (torch.return_types.max((X, Y)), NUMBERED),
    "dict": ({"x": X, "y": Y}, NAMED),
    "ordered dict": (OrderedDict(x=X, y=Y), NAMED),
    "default dict": (defaultdict(list, x=X, y=Y), NAMED),
    "user dict": (UserDict(x=X, y=Y), NAMED),
    "read-only mapping": (MappingProxyType({"x": X, "y": Y}), NAMED),
    "frozen dataclass": (Frozen(X, Y), FIELDS),
    "dataclass with a computed field": (Counted(X, Y), [*FIELDS, ".size"]),
    "registered dataclass without keys": (WithoutKeys(X, Y), FIELDS),
    "registered mapping without keys": (Output(x=X, y=Y), NAMED),
    "registered without keys": (Cache(X, Y), NUMBERED),
    "nested": ({"a": (X, [None, 3]), "b": Frozen(Y, "text")},
               ["['a'][0]", "['a'][1][0]", "['a'][1][1]", "['b'].x", "['b'].y"]),
    "states of an LSTM": ((X, (Y, Y)), ["[0]", "[1][0]", "[1][1]"]),
    "tensor": (X, [""]),
    "other object": (object(), [""]),
}  # fmt: skip


@pytest.mark.parametrize(("tree", "places"), TREES.values(), ids=TREES)
def test_every_leaf_has_its_place(tree: Any, places: list[str]) -> None:
    assert [place for place, _ in trees.leaves(tree)] == places


@pytest.mark.parametrize("tree", [tree for tree, _ in TREES.values()], ids=list(TREES))
def test_containers_are_rebuilt_around_new_tensors(tree: Any) -> None:
    before = [leaf for _, leaf in trees.leaves(tree)]
    made = trees.map_tensors(lambda tensor: tensor + 10, tree)
    assert type(made) is type(tree)
    assert [place for place, _ in trees.leaves(made)] == [place for place, _ in trees.leaves(tree)]
    for old, (_, new), (_, kept) in zip(
        before, trees.leaves(made), trees.leaves(tree), strict=True
    ):
        assert kept is old
        assert torch.equal(new, old + 10) if isinstance(old, Tensor) else new is old


def test_a_default_dict_keeps_its_factory() -> None:
    assert trees.map_tensors(torch.clone, defaultdict(list, x=X))["new"] == []


def test_one_tensor_in_two_places_stays_one() -> None:
    first, second = trees.map_tensors(torch.clone, (X, {"again": X}))
    assert first is second["again"]
    assert first is not X
