"""Finds the tensors in what forward returns, with their places, and says what else is in it.

They may be attributes of objects, such as a distribution of torch, besides in containers.
"""

from __future__ import annotations

import concurrent.futures
import math
import multiprocessing.pool
from collections import abc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from modescope.bench.model import geometry, trees
from modescope.bench.records.errors import shorten

Outputs = dict[str, torch.Tensor]  # by its place in what forward returns, such as "[0]['logits']"

UNFINISHED = (
    *(abc.Awaitable, abc.Iterator, abc.AsyncIterator),
    *(concurrent.futures.Future, multiprocessing.pool.AsyncResult, torch._C.Future),
)
"""Types that a function returns before it has done its work, or while others do it."""

NO_RESULTS: tuple[Any, ...] = (
    *UNFINISHED,
    torch.Tensor,
    torch.nn.Module,
    ModuleType,
    type,
    abc.Callable,
)
"""Types whose attributes are no results of the call, such as the weights of a module."""

LONGEST_LIST = 300
"""The largest number of characters of a list of places: a cache of a large model may have hundreds
of tensors."""


def leaves(outputs: object) -> list[tuple[str, Any]]:
    """Returns each leaf of what forward returned, and its place, such as `[1].loc`.

    Of an object that is no container, the leaves are in its attributes, if any of these is a
    tensor; else it is a leaf itself.
    """
    return list(_walk(outputs, {}))


def tensors(outputs: object) -> list[torch.Tensor]:
    """Returns the tensors in what forward returned, in the order of their places."""
    return [leaf for _, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor)]


def comparable(outputs: object) -> Outputs:
    """Returns float64 copies of floating and complex tensors; of integers if there are no others.

    Integers beside floats are left out: an argmax between nearly equal candidates may differ
    although no mode is wrong.
    """
    return {place: double(tensor) for place, tensor in _comparable_leaves(outputs).items()}


def is_discrete(outputs: object) -> bool:
    """Whether `comparable` returns whole numbers: masks, class numbers or the like."""
    return not any(_is_real(tensor) for tensor in tensors(outputs))


def describe_unchecked(outputs: object) -> str | None:
    """Returns the places in `outputs` that are not compared, with types; None without any.

    These are the places that `comparable` leaves out, and tensors without elements. None, numbers
    and texts are named only if no tensor can be compared.
    """
    compared = {place for place, leaf in _comparable_leaves(outputs).items() if leaf.numel()}
    left = [
        f"{place or 'output'} ({_kind(leaf)})"
        for place, leaf in leaves(outputs)
        if place not in compared and not (compared and isinstance(leaf, trees.PLAIN))
    ]
    return shorten(", ".join(left), LONGEST_LIST) or None


def find_unfinished(outputs: object) -> str | None:
    """Returns the type, such as `a map`, of the first value in `outputs` that is not yet computed.

    Such types (iterators, futures) are listed in UNFINISHED. None if `outputs` has no such value;
    attributes of objects are not looked at.
    """
    return _unfinished(trees.leaves(outputs))


def why_incomparable(outputs: object) -> str | None:
    """Returns why `outputs` of forward say nothing of its work; None if they do.

    An object in which there is no tensor may, although it cannot be compared.
    """
    every = leaves(outputs)
    if kind := _unfinished(every):
        return (
            f"forward returned {kind}, which has not done its work when forward returns; return "
            "its results, as in list(...)"
        )
    if not all(isinstance(leaf, trees.PLAIN) for _, leaf in every):
        return None
    return "forward returned no tensor; return those that it computes, so that they can be checked"


def floating_tensors(outputs: object) -> list[torch.Tensor]:
    """Returns the floating tensors in `outputs`, in the order of their places."""
    return [tensor for tensor in tensors(outputs) if tensor.is_floating_point()]


def double(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a dense float64 copy of `tensor`; a complex number becomes two real numbers.

    Of a nested tensor it has the elements in one row, because jagged sizes never equal each other.
    """
    if tensor.is_nested:
        with torch.inference_mode():  # the only one in which all can be taken apart
            tensor = torch.cat([row.flatten() for row in tensor.unbind()])
    if tensor.layout in (torch.sparse_coo, *geometry.COMPRESSED):
        tensor = tensor.detach().to_dense()
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.detach().to(torch.float64, copy=True)


def difference(result: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Returns `result` minus `reference`; 0 where both are nan or the same infinity."""
    same = (result == reference) | (result.isnan() & reference.isnan())
    return (result - reference).masked_fill(same, 0)


def relative_error(output: torch.Tensor, reference: torch.Tensor) -> float:
    """Returns the RMS of the difference over that of `reference`; of a zero reference, the former.

    Both have the same shape. The result is 0 if they have no elements.
    """
    if output.numel() == 0:
        return 0.0
    wrong = float(difference(output, reference).square().mean().sqrt())
    size = float(zero_nonfinite(reference).square().mean().sqrt())
    return wrong / size if size > 0 else wrong


def largest_error(found: Outputs, wanted: Outputs) -> float:
    """Returns the largest relative error of all outputs; nan if one is, inf for other shapes."""
    if [(k, v.shape) for k, v in found.items()] != [(k, v.shape) for k, v in wanted.items()]:
        return float("inf")
    errors = [relative_error(found[place], wanted[place]) for place in wanted]
    return next(filter(math.isnan, errors), max(errors, default=0.0))


def zero_nonfinite(reference: torch.Tensor) -> torch.Tensor:
    """Returns `reference` with 0 in place of nan and infinities; errors are divided by its norm."""
    return reference.nan_to_num(0, 0, 0)


def _unfinished(listed: Iterable[tuple[str, Any]]) -> str | None:
    kinds = (type(leaf) for _, leaf in listed if isinstance(leaf, UNFINISHED))
    return next((f"a {kind.__name__}" for kind in kinds), None)


def _comparable_leaves(outputs: object) -> Outputs:
    every = {place: leaf for place, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor)}
    return {place: leaf for place, leaf in every.items() if _is_real(leaf)} or every


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _walk(node: object, known: dict[int, _Held | None]) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of `node`; `known` has what objects hold, None while that is found out."""
    for at, leaf in trees.leaves(node):
        if id(leaf) not in known:
            known[id(leaf)] = None
            places = [
                (f".{name}{place}", part)
                for name, value in _attributes(leaf).items()
                for place, part in _walk(value, known)
                if isinstance(part, (torch.Tensor, *UNFINISHED))
            ]
            known[id(leaf)] = _Held(leaf, places)
        held = known[id(leaf)]
        if held is not None:  # else the object refers to itself
            yield from ((at + place, part) for place, part in held.places or [("", leaf)])


@dataclass(frozen=True)
class _Held:
    """What results an object holds, by their places in it; the object, so that its id stays."""

    holder: object
    places: list[tuple[str, Any]]


def _attributes(leaf: object) -> dict[str, Any]:
    """Returns the attributes of an object, those in slots too; none of one of NO_RESULTS."""
    if isinstance(leaf, NO_RESULTS):
        return {}
    state = object.__getstate__(leaf)
    parts = state if isinstance(state, tuple) else (state,)
    return {name: value for part in parts if part for name, value in part.items()}


def _kind(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        if not leaf.numel():
            return "no elements"
        return f"{str(leaf.dtype).removeprefix('torch.')}, beside floating outputs"
    return type(leaf).__name__
