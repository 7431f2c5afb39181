"""Activation checkpointing: backward computes activations again instead of keeping them."""

from __future__ import annotations

from collections.abc import Callable

from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    _CHECKPOINT_PREFIX,
    checkpoint_wrapper,
)
from torch.nn import Module, ModuleDict, ModuleList, Parameter


def _none(module: Module, random: bool) -> Module:
    return module


def _whole(module: Module, random: bool) -> Module:
    """Recomputed with the same random numbers, where the model draws any.

    Without need it is not asked for: a CUDA graph cannot capture how torch restores them.
    """
    return checkpoint_wrapper(module, preserve_rng_state=random)


def _children(module: Module, random: bool) -> Module:
    for name, child in list(module.named_children()):
        inside = isinstance(child, (ModuleList, ModuleDict))  # containers that are never called
        wrapped = _children(child, random) if inside else _whole(child, random)
        setattr(module, name, wrapped)
    return module


def trained(module: Module) -> dict[str, Parameter]:
    """The parameters that require a gradient, by their names without checkpoint wrappers."""
    named = {name.replace(_CHECKPOINT_PREFIX, ""): p for name, p in module.named_parameters()}
    return {name: parameter for name, parameter in named.items() if parameter.requires_grad}


RECOMPUTING: dict[str, Callable[[Module, bool], Module]] = {
    "none": _none,
    "children": _children,
    "model": _whole,
}
"""By train.checkpoint: wraps what is recomputed as one piece. Each changes the given module, and is
told whether it draws random numbers."""
