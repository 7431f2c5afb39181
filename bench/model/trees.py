"""Walks what a model takes or returns: tensors and other values in nested containers.

Containers are tuples, named tuples, lists, mutable mappings, dataclasses, and all types that are
registered with torch's pytree. Anything else is a leaf.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

PLAIN = (bool, int, float, complex, str, type(None))
"""Types of leaves other than tensors that models commonly take and return, and that hold no
tensor."""

Parts = tuple[Sequence[str], Sequence[Any], Callable[[list[Any]], Any]]
"""The keys of a container as a user would write them (`[0]`, `['logits']`, `.logits`), its values,
and a function that makes the same container around other values."""


def leaves(tree: object, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each leaf of `tree` and its place, such as `[0]['logits']`; "" if `tree` is a leaf."""
    parts = _parts(tree)
    if parts is None:
        yield place, tree
    else:
        keys, values, _ = parts
        for key, value in zip(keys, values, strict=True):
            yield from leaves(value, place + key)


def tensors(tree: object) -> list[torch.Tensor]:
    """Returns the tensors in `tree`, in the order of their places."""
    return [leaf for _, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """Returns `tree` in new containers, with `function` applied to each tensor.

    Other leaves stay. A tensor in two places is still one tensor in both.
    """
    done: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # keeps tensors alive: ids stay unique

    def anew(node: Any) -> Any:
        if isinstance(node, torch.Tensor):
            if id(node) not in done:
                done[id(node)] = node, function(node)
            return done[id(node)][1]
        parts = _parts(node)
        if parts is None:
            return node
        _, values, rebuild = parts
        return rebuild([anew(value) for value in values])

    return anew(tree)


def _parts(tree: object) -> Parts | None:
    if isinstance(tree, torch.Tensor):
        return None
    if registered := pytree.SUPPORTED_NODES.get(type(tree)):
        return _registered_parts(tree, registered)
    named = _named_content(tree)
    return None if named is None else ([*named], [*named.values()], _rebuilder(tree))


def _registered_parts(tree: Any, registered: pytree.NodeDef) -> Parts:
    if registered.flatten_with_keys_fn is not None:
        pairs, context = registered.flatten_with_keys_fn(tree)
        values = [value for _, value in pairs]
        keys = [pytree.keystr((key,)) for key, _ in pairs]
    else:
        values, context = registered.flatten_fn(tree)
        named = _named_content(tree) if isinstance(tree, Mapping) else None
        keys = [*(named or _numbered(values))]
    return keys, values, lambda new: registered.unflatten_fn(new, context)


def _named_content(tree: Any) -> dict[str, Any] | None:
    """Returns what `tree`, a container that torch does not know, contains; None if it is a leaf.

    Keys are written as in a place: `['x']`, `.name` or `[0]`.
    """
    if isinstance(tree, MutableMapping):
        return {f"[{key!r}]": value for key, value in tree.items()}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return {f".{field.name}": getattr(tree, field.name) for field in dataclasses.fields(tree)}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {f".{name}": value for name, value in zip(tree._fields, tree, strict=True)}
    return _numbered(tree) if isinstance(tree, (tuple, list)) else None


def _numbered(values: Sequence[Any]) -> dict[str, Any]:
    return {f"[{number}]": value for number, value in enumerate(values)}


def _rebuilder(tree: Any) -> Callable[[list[Any]], Any]:
    if isinstance(tree, (tuple, list)):
        kind: Callable[..., Any] = type(tree)
        return (lambda values: kind(*values)) if hasattr(tree, "_fields") else kind

    def rebuild(values: list[Any]) -> Any:
        copied = copy.copy(tree)  # as the class may have other arguments than its content
        if isinstance(tree, MutableMapping):
            for key, value in zip(tree, values, strict=True):
                copied[key] = value
        else:
            for field, value in zip(dataclasses.fields(tree), values, strict=True):
                object.__setattr__(copied, field.name, value)  # also where it is frozen
        return copied

    return rebuild
