"""The module under test and its inputs: built from its target, checked, copied, cast, redrawn."""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.records import Model, UsageError


@dataclass(frozen=True)
class Inputs:
    """Arguments of a forward: every value is a tensor."""

    args: tuple[torch.Tensor, ...]
    kwargs: dict[str, torch.Tensor]

    def tensors(self) -> list[torch.Tensor]:
        """All tensors, positional first."""
        return [*self.args, *self.kwargs.values()]

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        """The same arguments with `function` applied to each tensor."""
        return Inputs(
            tuple(function(tensor) for tensor in self.args),
            {name: function(tensor) for name, tensor in self.kwargs.items()},
        )

    def assign(self, values: Inputs) -> None:
        """Overwrites the tensors in place, so that captured graphs see the new values."""
        for tensor, value in zip(self.tensors(), values.tensors(), strict=True):
            tensor.copy_(value)


@dataclass(frozen=True)
class Subject:
    """A module and the inputs it is called with; nobody else holds either."""

    module: torch.nn.Module
    inputs: Inputs

    def cast(self, dtype: torch.dtype) -> Subject:
        """A copy of its own whose floating weights, buffers and inputs have `dtype`."""
        return Subject(
            copy.deepcopy(self.module).to(dtype),
            self.inputs.map(
                lambda tensor: (
                    tensor.to(dtype, copy=True) if tensor.is_floating_point() else tensor.clone()
                )
            ),
        )

    def to(self, device: torch.device) -> Subject:
        """Moved to `device`; the module itself is moved, not copied."""
        return Subject(self.module.to(device), self.inputs.map(lambda t: t.to(device)))


def build(model: Model, shape: dict[str, int]) -> Subject:
    """Calls the model's target, in fp32 on the CPU, and switches to `eval()`.

    Raises UsageError where the target cannot be found, called with these arguments, or returns
    something other than (module, tuple or dict of tensors).
    """
    function = find(model.target)
    arguments = {**shape, **json.loads(model.args_json)}
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise UsageError(
            f"{model.target} cannot be called with {arguments}: {error}; set model.kwargs"
        ) from error
    try:
        built = function(**arguments)
    except ValueError as error:
        raise UsageError(f"{model.target} refuses {arguments}: {error}") from error
    if not (isinstance(built, tuple) and len(built) == 2):
        raise UsageError(_wrong(model, built))
    module, inputs = built
    if not isinstance(module, torch.nn.Module):
        raise UsageError(_wrong(model, built))
    return Subject(module.eval(), _inputs(model, inputs))


def find(target: str) -> Callable[..., Any]:
    """The function called "module:name"; raises UsageError where it cannot be imported."""
    module_name, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        raise UsageError(
            f"model.target={target}: cannot import {module_name} ({error}); install it or put its "
            "folder on PYTHONPATH"
        ) from error
    except AttributeError as error:
        raise UsageError(f"model.target={target}: {module_name} has no {name}") from error
    if not callable(found):
        raise UsageError(f"model.target={target}: {name} is no function")
    result: Callable[..., Any] = found
    return result


def source_hash(target: str) -> str:
    """Hash of the file that defines the target, so that edits are noticed."""
    file = inspect.getsourcefile(importlib.import_module(target.partition(":")[0]))
    return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()[:16]


def _inputs(model: Model, inputs: object) -> Inputs:
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else ()
    kwargs = dict(inputs) if isinstance(inputs, dict) else {}
    tensors = [*args, *kwargs.values()]
    if not tensors or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise UsageError(_wrong(model, (None, inputs)))
    return Inputs(args, kwargs)


def _wrong(model: Model, built: object) -> str:
    came = type(built).__name__
    if isinstance(built, tuple):
        came = f"({', '.join(_kind(part) for part in built)})"
    return (
        f"{model.target} returned {came}; it must return (torch.nn.Module, example inputs), the "
        "inputs as a tuple or dict of tensors"
    )


def _kind(part: Any) -> str:
    inside = part.values() if isinstance(part, dict) else part
    if isinstance(part, (tuple, list, dict)):
        return f"{type(part).__name__} of {sorted({type(item).__name__ for item in inside})}"
    return "module" if part is None else type(part).__name__


def redraw(inputs: Inputs, seed: int) -> Inputs:
    """Fresh inputs like the given ones: floats drawn anew, integers and booleans permuted.

    Floats keep mean, spread and range of the example, so that a model that needs, say, positive
    values still gets them.
    """
    generator = torch.Generator().manual_seed(seed)

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
            return tensor.flatten()[order].view(tensor.shape)
        noise = torch.randn(tensor.shape, generator=generator).to(tensor)
        mean, spread = tensor.mean(), tensor.std(correction=0)
        if tensor.numel() < 2 or spread == 0:
            return tensor + noise * tensor.abs().clamp(min=1)
        return (mean + spread * noise).clamp(tensor.min(), tensor.max())

    return inputs.map(fresh)
