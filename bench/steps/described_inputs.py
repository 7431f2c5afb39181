"""Inputs drawn from `model.inputs`, and whether a model's forward has such arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from modescope.bench.records import input_descriptions
from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import KEY, TensorDescription


def draw(parsed: Any, sizes: Mapping[str, int]) -> Any:
    """`parsed` (`bench.records.input_descriptions`) with tensors, from torch's global generator."""
    return input_descriptions.mapped(lambda each: _drawn(each, sizes), parsed)


def extremes(parsed: Any, sizes: Mapping[str, int]) -> Any:
    """As `draw`, with the largest and the least whole number that may be drawn, in turns."""

    def extreme(described: TensorDescription) -> torch.Tensor:
        drawn = _drawn(described, sizes)
        if drawn.dtype is torch.bool or drawn.is_floating_point():
            return drawn
        assert described.high is not None
        least, most = int(described.low or 0), int(described.high) - 1
        drawn.view(-1)[::2], drawn.view(-1)[1::2] = most, least
        return drawn

    return input_descriptions.mapped(extreme, parsed)


def _drawn(described: TensorDescription, sizes: Mapping[str, int]) -> torch.Tensor:
    size = [sizes[each] if isinstance(each, str) else each for each in described.size]
    dtype: torch.dtype = getattr(torch, described.dtype)
    low, high = described.low or 0, described.high
    if dtype is torch.bool:
        return torch.randint(2, size, dtype=dtype)
    if not dtype.is_floating_point:
        assert high is not None
        return torch.randint(int(low), int(high), size, dtype=dtype)
    return torch.randn(size) if high is None else torch.empty(size).uniform_(low, high)


def named(signature: inspect.Signature) -> list[str]:
    """The names of arguments, without `*args` and `**kwargs`."""
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in signature.parameters.values() if each.kind not in any_number]


def takes_any_name(signature: inspect.Signature) -> bool:
    """Whether there is a `**kwargs`."""
    parameters = signature.parameters.values()
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


def example(module: torch.nn.Module) -> str:
    """A setting that describes one input of `module`."""
    signature = _signature(module)
    name = next(iter(named(signature) if signature else ()), "input")
    return f"'+model.inputs={{{name}: [8, 64]}}'"


def check_names(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises UsageError where forward has no such argument, or needs another one."""
    signature = _signature(module)
    if signature is None:
        return
    forward, names = f"{type(module).__name__}.forward", named(signature)
    known = f"its arguments are {', '.join(names)}" if names else "it names no arguments"
    if not takes_any_name(signature):
        for name in sorted(kwargs.keys() - set(names)):
            raise UsageError(f"{KEY}.{name}: {forward} has no argument {name}; {known}")
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"{KEY}: {forward}: {error}; {known}") from error


def _signature(module: torch.nn.Module) -> inspect.Signature | None:
    """The arguments of forward; None where it is not written in Python: calling it will tell."""
    try:
        return inspect.signature(module.forward)
    except (TypeError, ValueError):
        return None
