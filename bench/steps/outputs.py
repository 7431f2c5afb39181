"""The tensors in forward's output, by their place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

Outputs = dict[str, torch.Tensor]  # by its place in what forward returns, such as "[0]['logits']"


def comparable(outputs: object) -> Outputs:
    """Float64 copies of floating and complex tensors; of integer tensors if there are no others.

    Otherwise an argmax between equal candidates could differ although no mode is wrong.
    """
    tensors = dict(_tensors(outputs))
    real = {p: t for p, t in tensors.items() if t.is_floating_point() or t.is_complex()}
    return {place: double(tensor) for place, tensor in (real or tensors).items()}


def floating(outputs: object) -> list[torch.Tensor]:
    """The floating tensors, in the order of their places."""
    return [tensor for _, tensor in _tensors(outputs) if tensor.is_floating_point()]


def double(tensor: torch.Tensor) -> torch.Tensor:
    """A float64 copy; a complex number becomes two real numbers."""
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.detach().to(torch.float64, copy=True)


def _tensors(outputs: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in `outputs` and its place: in tuples, lists, dicts and dataclasses."""
    for path, leaf in pytree.tree_flatten_with_path(outputs)[0]:
        place = pytree.keystr(path)
        if isinstance(leaf, torch.Tensor):
            yield place, leaf
        elif parts := _parts(leaf):
            yield from ((place + inner, tensor) for inner, tensor in _tensors(parts))


def _parts(leaf: object) -> dict[Any, object]:
    """The contents of leaves that pytree does not know: subclasses of dict, and dataclasses."""
    if isinstance(leaf, Mapping):
        return dict(leaf)
    if dataclasses.is_dataclass(leaf):
        return {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
    return {}
