"""What is found in the outputs of a call: in containers, and in the attributes of objects."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from modescope.bench.model import outputs

ONE, TWO = torch.ones(2), torch.zeros(3)


class Plain(NamedTuple):
    x: int


class Holds:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slots:
    __slots__ = ("__own", "shown", "unset")

    def __init__(self, own: Any, shown: Any) -> None:
        self.__own, self.shown = own, shown


class SlotsToo(Slots):
    """Has slots and a dict."""

    def __init__(self, own: Any, shown: Any) -> None:
        super().__init__(own, shown)
        self.late = TWO


def in_a_circle() -> Holds:
    child = Holds(x=ONE)
    parent = Holds(child=child, y=TWO)
    child.parent = child.parents = [parent]  # type: ignore[attr-defined]
    return parent


TWICE = Holds(x=ONE)

HELD: dict[str, tuple[object, list[str]]] = {
    "a distribution": (Normal(ONE, ONE, validate_args=False), [".loc", ".scale"]),
    "beside a tensor": ((ONE, {"d": Normal(ONE, ONE)}), ["[0]", "[1]['d'].loc", "[1]['d'].scale"]),
    "slots": (Slots(ONE, [TWO]), ["._Slots__own", ".shown[0]"]),
    "slots and attributes": (SlotsToo(ONE, 3), [".late", "._Slots__own"]),
    "objects in an object": (Holds(a=Holds(b=(ONE, 3), c="text")), [".a.b[0]"]),
    "one object twice": ([TWICE, TWICE], ["[0].x", "[1].x"]),
    "a circle": (in_a_circle(), [".child.x", ".y"]),
    "a module and a class are no results": (
        Holds(x=ONE, net=nn.Linear(2, 2), kind=Slots, call=in_a_circle, library=torch),
        [".x"],
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_tensors_are_found_in_the_attributes_of_objects(name: str) -> None:
    returned, places = HELD[name]
    assert sorted(outputs.comparable(returned)) == sorted(places)
    assert len(outputs.tensors(returned)) == len(places)
    assert outputs.why_incomparable(returned) is None
    assert outputs.describe_unchecked(returned) is None


def test_an_object_without_tensors_is_named_and_is_no_failure() -> None:
    for returned, named in (
        (Holds(x=3, text="text"), "output (Holds)"),
        ((3, Holds()), "[0] (int), [1] (Holds)"),
        (nn.Linear(2, 2), "output (Linear)"),
    ):
        assert outputs.why_incomparable(returned) is None
        assert outputs.comparable(returned) == {}
        assert outputs.describe_unchecked(returned) == named


@pytest.mark.parametrize("returned", [None, 3, "text", [], {}, (None, 1.5), Plain(3)])
def test_plain_values_alone_are_no_results(returned: object) -> None:
    assert "no tensor" in (outputs.why_incomparable(returned) or "")


@pytest.mark.parametrize("unfinished", [Future(), map(abs, [1]), (x for x in "ab")])
def test_what_is_unfinished_is_found_in_objects_too(unfinished: object) -> None:
    kind = type(unfinished).__name__
    for returned in (unfinished, [ONE, unfinished], Holds(x=ONE, later=Holds(it=unfinished))):
        assert f"a {kind}," in (outputs.why_incomparable(returned) or "")
    assert outputs.find_unfinished([unfinished]) == f"a {kind}"
    assert outputs.find_unfinished(Holds(it=unfinished)) is None, "of any function"


def test_tensors_without_elements_and_whole_numbers_beside_floats_are_named() -> None:
    empty = torch.empty(0, 4)
    found = outputs.describe_unchecked((ONE, empty, ONE > 0))
    assert found == "[1] (no elements), [2] (bool, beside floating outputs)"
    assert outputs.describe_unchecked(empty) == "output (no elements)"
