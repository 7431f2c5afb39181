"""Finds the tensors in what forward returns, with their places, and says what else is in it."""

from __future__ import annotations

import concurrent.futures
import multiprocessing.pool
from collections import abc
from typing import Any

import torch

from modescope.bench.records.errors import shorten
from modescope.bench.steps import geometry, trees

Outputs = dict[str, torch.Tensor]  # by its place in what forward returns, such as "[0]['logits']"

UNFINISHED = (
    *(abc.Awaitable, abc.Iterator, abc.AsyncIterator),
    *(concurrent.futures.Future, multiprocessing.pool.AsyncResult, torch._C.Future),
)
"""Types that a function returns before it has done its work, or while others do it."""

LONGEST_LIST = 300
"""The largest number of characters of a list of places: a cache of a large model may have hundreds
of tensors."""


def comparable(outputs: object) -> Outputs:
    """Returns float64 copies of floating and complex tensors; of integers if there are no others.

    Integers beside floats are left out: an argmax between nearly equal candidates may differ
    although no mode is wrong.
    """
    return {place: double(tensor) for place, tensor in _comparable_leaves(outputs).items()}


def describe_unchecked(outputs: object) -> str | None:
    """Returns the places in `outputs` that `comparable` leaves out, with types; None without any.

    None, numbers and texts are named only if no tensor can be compared.
    """
    compared = _comparable_leaves(outputs)
    left = [
        f"{place or 'output'} ({_kind(leaf)})"
        for place, leaf in trees.leaves(outputs)
        if place not in compared and not (compared and isinstance(leaf, trees.PLAIN))
    ]
    return shorten(", ".join(left), LONGEST_LIST) or None


def find_unfinished(outputs: object) -> str | None:
    """Returns the type, such as `a map`, of the first value in `outputs` that is not yet computed.

    Such types (iterators, futures) are listed in UNFINISHED. None if `outputs` has no such value.
    """
    kinds = (type(leaf) for _, leaf in trees.leaves(outputs) if isinstance(leaf, UNFINISHED))
    return next((f"a {kind.__name__}" for kind in kinds), None)


def why_incomparable(outputs: object) -> str | None:
    """Returns why `outputs` of forward cannot be compared; None if they can."""
    if kind := find_unfinished(outputs):
        return (
            f"forward returned {kind}, which has not done its work when forward returns; return "
            "its results, as in list(...)"
        )
    if _comparable_leaves(outputs):
        return None
    return "forward returned no tensor; return those that it computes, so that they can be checked"


def floating_tensors(outputs: object) -> list[torch.Tensor]:
    """Returns the floating tensors in `outputs`, in the order of their places."""
    return [tensor for tensor in trees.tensors(outputs) if tensor.is_floating_point()]


def double(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a dense float64 copy of `tensor`; a complex number becomes two real numbers.

    Of a nested tensor it has the elements in one row, because jagged sizes never equal each other.
    """
    if tensor.is_nested:
        with torch.inference_mode():  # the only one in which all can be taken apart
            tensor = torch.cat([each.flatten() for each in tensor.unbind()])
    if tensor.layout in (torch.sparse_coo, *geometry.COMPRESSED):
        tensor = tensor.detach().to_dense()
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.detach().to(torch.float64, copy=True)


def difference(result: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Returns `result` minus `reference`; 0 where both are nan or the same infinity."""
    same = (result == reference) | (result.isnan() & reference.isnan())
    return (result - reference).masked_fill(same, 0)


def zero_nonfinite(reference: torch.Tensor) -> torch.Tensor:
    """Returns `reference` with 0 in place of nan and infinities; errors are divided by its norm."""
    return reference.nan_to_num(0, 0, 0)


def _comparable_leaves(outputs: object) -> Outputs:
    leaves = trees.leaves(outputs)
    tensors = {place: leaf for place, leaf in leaves if isinstance(leaf, torch.Tensor)}
    real = {p: t for p, t in tensors.items() if t.is_floating_point() or t.is_complex()}
    return real or tensors


def _kind(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype).removeprefix('torch.')}, beside floating outputs"
    return type(leaf).__name__
