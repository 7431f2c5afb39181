"""The module under test and its inputs: built from its target, checked, copied, cast, redrawn."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.isolation import one_line
from bench.records import Model, UsageError


@dataclass(frozen=True)
class Inputs:
    """Arguments of a forward, and what a loss compares its outputs with: tensors all of them."""

    args: tuple[torch.Tensor, ...]
    kwargs: dict[str, torch.Tensor]
    targets: tuple[torch.Tensor, ...] = ()  # of training, one per output

    def tensors(self) -> list[torch.Tensor]:
        """All tensors, positional arguments first."""
        return [*self.args, *self.kwargs.values(), *self.targets]

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        """The same arguments with `function` applied to each tensor."""
        return Inputs(
            tuple(function(tensor) for tensor in self.args),
            {name: function(tensor) for name, tensor in self.kwargs.items()},
            tuple(function(tensor) for tensor in self.targets),
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
        """A copy of its own whose floating weights, buffers and inputs have `dtype`.

        Not `Module.to(dtype)`: that would take the imaginary part from complex weights.
        """

        def converted(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        return Subject(
            copy.deepcopy(self.module)._apply(converted),
            self.inputs.map(lambda tensor: converted(tensor.clone())),
        )

    def tensors(self) -> list[torch.Tensor]:
        """Parameters, buffers and inputs."""
        return [*self.module.parameters(), *self.module.buffers(), *self.inputs.tensors()]

    def to(self, device: torch.device) -> Subject:
        """Moved to `device`; the module itself is moved, not copied."""
        return Subject(self.module.to(device), self.inputs.map(lambda t: t.to(device)))


@contextmanager
def state_kept(module: torch.nn.Module) -> Iterator[None]:
    """Undoes what calls do to the module's buffers: changed in place or replaced by others."""
    before = [
        (owner, name, buffer, None if buffer is None else buffer.clone())
        for owner in module.modules()
        for name, buffer in owner._buffers.items()
    ]
    try:
        yield
    finally:
        with torch.inference_mode():  # a buffer replaced under it can be written nowhere else
            for owner, name, buffer, value in before:
                if buffer is not None and value is not None:
                    buffer.copy_(value)  # in place, because a captured graph knows its address
                setattr(owner, name, buffer)


def build(model: Model, shape: dict[str, int]) -> Subject:
    """Calls the model's target, in fp32 on the CPU, and switches to `eval()`.

    Raises UsageError where the target cannot be found, called with these arguments, or returns
    something other than (module, tuple or dict of tensors).
    """
    function = find(model.target)
    arguments = {**shape, **json.loads(model.args_json)}
    try:
        inspect.signature(function).bind(**arguments)
    except (TypeError, ValueError) as error:  # ValueError: it has no signature
        raise UsageError(
            f"{model.target} cannot be called with {arguments}: {error}; set model.kwargs"
        ) from error
    try:
        built = function(**arguments)
    except ValueError as error:
        raise UsageError(f"{model.target} refuses {arguments}: {error}") from error
    if not (isinstance(built, tuple) and len(built) == 2):
        raise UsageError(_wrong(model, built))
    module, example = built
    inputs = _inputs(example)
    if inputs is None or not isinstance(module, torch.nn.Module):
        raise UsageError(_wrong(model, built))
    return Subject(module.eval(), inputs)


def find(target: str, key: str = "model.target") -> Callable[..., Any]:
    """The function called "module:name"; raises UsageError where it cannot be imported.

    `key` is the setting that named it.
    """
    module_name, _, name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(
            f"{key}={target}: cannot import {module_name} ({error}); {_where(module_name, error)}"
        ) from error
    except Exception as error:
        raise UsageError(
            f"{key}={target}: importing {module_name} fails ({one_line(error)}); mend it so "
            f'that python -c "import {module_name}" works'
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise UsageError(f"{key}={target}: {module_name} has no function '{name}'")
    if not callable(found):
        raise UsageError(f"{key}={target}: {name} is no function")
    result: Callable[..., Any] = found
    return result


def _where(module_name: str, error: ImportError) -> str:
    """How a module is found that could not be imported."""
    top = module_name.partition(".")[0]
    near = [name for name in (f"{top}.py", top) if Path(name).exists()]
    if near and error.name == top:
        return (
            f"{near[0]} lies in the current folder, which Python searches if the command begins "
            "with it: PYTHONPATH=. python run.py ..."
        )
    return "install it or put its folder on PYTHONPATH"


def _inputs(example: object) -> Inputs | None:
    """The arguments as tensors without history; None unless there are tensors and nothing else."""
    if isinstance(example, torch.Tensor):
        example = (example,)
    args = tuple(example) if isinstance(example, (tuple, list)) else ()
    kwargs = dict(example) if isinstance(example, dict) else {}
    tensors = [*args, *kwargs.values()]
    named = all(isinstance(name, str) for name in kwargs)
    if not (tensors and named and all(isinstance(each, torch.Tensor) for each in tensors)):
        return None
    return Inputs(args, kwargs).map(torch.Tensor.detach)


def _wrong(model: Model, built: object) -> str:
    came = type(built).__name__
    if isinstance(built, tuple):
        came = f"({', '.join(_kind(part) for part in built)})"
    return (
        f"{model.target} returned {came}; it must return (torch.nn.Module, example inputs), the "
        "inputs as a tuple or dict of tensors"
    )


def _kind(part: Any) -> str:
    if isinstance(part, (tuple, list, dict)):
        inside = part.values() if isinstance(part, dict) else part
        kinds = ", ".join(sorted({type(item).__name__ for item in inside}))
        return f"{type(part).__name__} of {kinds or 'nothing'}"
    return type(part).__name__


def redraw(inputs: Inputs, seed: int) -> Inputs:
    """Fresh inputs like the given ones: floats drawn anew, integers and booleans permuted.

    Floats keep mean, spread and range of the example, so that a model that needs, say, positive
    values still gets them; a constant keeps its sign. What is infinite stays (attention masks).
    """
    generator = torch.Generator().manual_seed(seed)

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
            return tensor.flatten()[order].view(tensor.shape)
        noise = torch.randn(tensor.shape, generator=generator).to(tensor)
        return torch.where(tensor.isfinite(), _like(tensor, noise), tensor)

    return inputs.map(fresh)


def _like(tensor: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Standard normal `noise` with the mean, spread and range of the tensor's finite values."""
    known = tensor[tensor.isfinite()]
    if known.numel() == 0:
        return tensor
    low, high = known.aminmax()
    if low == high:  # no spread to take over: zero becomes noise, another value is scaled
        return noise if low == 0 else tensor * noise.exp()
    return (known.mean() + known.std(correction=0) * noise).clamp(low, high)
