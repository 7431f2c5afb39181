"""Containers as models take and return them: walked in order, and rebuilt around new tensors."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modescope.bench.model import trees

X, Y = torch.tensor([1.0]), torch.tensor([2.0])

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Frozen:
    x: Tensor
    y: Any
    size: int = field(init=False, default=3)


class Output(OrderedDict[str, Tensor]):
    """As in transformers and diffusers: made of attributes, used as a dict."""

    def __init__(self, *, x: Tensor, y: Tensor) -> None:
        super().__init__(x=x, y=y)


class Cache:
    """Registered, without paths and without fields."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.held = [x, y]


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
    "named tuple": (Pair(X, Y), FIELDS),
    "returned by torch": (torch.return_types.max((X, Y)), NUMBERED),
    "default dict": (defaultdict(list, x=X, y=Y), NAMED),
    "user dict": (UserDict(x=X, y=Y), NAMED),
    "frozen dataclass with a computed field": (Frozen(X, Y), [*FIELDS, ".size"]),
    "registered mapping without keys": (Output(x=X, y=Y), NAMED),
    "registered without keys": (Cache(X, Y), NUMBERED),
    "nested": ({"a": (X, [None, 3]), "b": Frozen(Y, "text")},
               ["['a'][0]", "['a'][1][0]", "['a'][1][1]", "['b'].x", "['b'].y", "['b'].size"]),
    "tensor": (X, [""]),
    "other object": (object(), [""]),
}  # fmt: skip


@pytest.mark.parametrize(("tree", "places"), TREES.values(), ids=TREES)
def test_leaves_have_places_and_containers_are_rebuilt_around_new_tensors(
    tree: Any, places: list[str]
) -> None:
    before = list(trees.leaves(tree))
    assert [place for place, _ in before] == places
    made = trees.map_tensors(lambda tensor: tensor + 10, tree)
    assert type(made) is type(tree)
    after, kept = list(trees.leaves(made)), list(trees.leaves(tree))
    assert [place for place, _ in after] == places
    for (_, old), (_, new), (_, own) in zip(before, after, kept, strict=True):
        assert own is old
        assert torch.equal(new, old + 10) if isinstance(old, Tensor) else new is old


def test_a_factory_and_tensors_in_two_places_are_kept() -> None:
    made = trees.map_tensors(torch.clone, defaultdict(list, x=X, again={"x": X}))
    assert made["new"] == []
    assert made["x"] is made["again"]["x"]
    assert made["x"] is not X
