"""A model under test, built by the function that its target names, with inputs as described."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.records import input_descriptions
from modescope.bench.records.cases import BUILT_IN, Model
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.input_descriptions import KEY, TensorDescription
from modescope.bench.steps import torch_settings, trees
from modescope.bench.steps.pickled_model import load
from modescope.bench.steps.subject import Inputs, Subject

STRANGE_INPUT = (
    "{} returned inputs of which {} is of type {}; an input is a tensor, number, bool, string or "
    "None, alone or in tuples, lists, dicts, dataclasses or registered pytrees"
)

IN_A_MODULE = "call a function of tensors in the forward of a torch.nn.Module"


def draw_inputs(parsed: Any, sizes: Mapping[str, int]) -> Any:
    """`parsed` (`bench.records.input_descriptions`) with tensors, from torch's global generator."""
    return input_descriptions.map_descriptions(lambda each: _draw(each, sizes), parsed)


def extreme_inputs(parsed: Any, sizes: Mapping[str, int]) -> Any:
    """As `draw_inputs`, with the largest and the least whole number that may be drawn, in turns."""

    def extreme(described: TensorDescription) -> torch.Tensor:
        drawn = _draw(described, sizes)
        if drawn.dtype is torch.bool or drawn.is_floating_point():
            return drawn
        assert described.high is not None
        least, most = int(described.low or 0), int(described.high) - 1
        drawn.view(-1)[::2], drawn.view(-1)[1::2] = most, least
        return drawn

    return input_descriptions.map_descriptions(extreme, parsed)


def _draw(described: TensorDescription, sizes: Mapping[str, int]) -> torch.Tensor:
    size = [sizes[each] if isinstance(each, str) else each for each in described.size]
    dtype: torch.dtype = getattr(torch, described.dtype)
    low, high = described.low or 0, described.high
    if dtype is torch.bool:
        return torch.randint(2, size, dtype=dtype)
    if not dtype.is_floating_point:
        assert high is not None
        return torch.randint(int(low), int(high), size, dtype=dtype)
    return torch.randn(size) if high is None else torch.empty(size).uniform_(low, high)


def _argument_names(signature: inspect.Signature) -> list[str]:
    """The names of arguments, without `*args` and `**kwargs`."""
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in signature.parameters.values() if each.kind not in any_number]


def _takes_any_name(signature: inspect.Signature) -> bool:
    """Whether there is a `**kwargs`."""
    parameters = signature.parameters.values()
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


def _example_setting(module: torch.nn.Module) -> str:
    """A setting that describes one input of `module`."""
    signature = _signature(module)
    name = next(iter(_argument_names(signature) if signature else ()), "input")
    return f"'+model.inputs={{{name}: [8, 64]}}'"


def _check_names(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises UsageError where forward has no such argument, or needs another one."""
    signature = _signature(module)
    if signature is None:
        return
    forward, names = f"{type(module).__name__}.forward", _argument_names(signature)
    known = f"its arguments are {', '.join(names)}" if names else "it names no arguments"
    if not _takes_any_name(signature):
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


def build(model: Model, shape: dict[str, int]) -> Subject:
    """Calls the model's target, in fp32 on the CPU, and switches to `eval()`.

    Raises UsageError where the target cannot be found or called with these arguments, or returns
    anything but (module, inputs); with `model.inputs`, anything but a module that takes these.
    Settings of torch that it changes are put back.
    """
    with torch_settings.keep() as changed:
        subject = _build_or_refuse(model, shape)
    return replace(subject, put_back=tuple(changed))


def _build_or_refuse(model: Model, shape: dict[str, int]) -> Subject:
    if model.inputs_json is not None:
        return _build_described(model, shape)
    built = _call_target(model, shape, {}, refused=(ValueError,))
    module, example = built if isinstance(built, tuple) and len(built) == 2 else (None, None)
    inputs = parse_inputs(example)
    if inputs is None or not isinstance(module, torch.nn.Module):
        raise UsageError(_wrong(model, built))
    for place, leaf in trees.leaves(example):
        if not isinstance(leaf, (torch.Tensor, *trees.PLAIN)):
            raise UsageError(STRANGE_INPUT.format(model.origin, place, type(leaf).__name__))
    return Subject(_switch_to_eval(module), inputs)


def _switch_to_eval(module: torch.nn.Module) -> torch.nn.Module:
    """As it is where torch cannot switch it: an exported program was traced in one of the modes."""
    with suppress(NotImplementedError):
        module.eval()
    return module


def add_extreme_inputs(subject: Subject, model: Model, shape: dict[str, int]) -> Subject:
    """With the largest and least whole numbers of `model.inputs`, which a draw need not contain."""
    assert model.inputs_json is not None
    described = input_descriptions.parse(json.loads(model.inputs_json))
    inputs = parse_inputs(extreme_inputs(described, shape))
    assert inputs is not None
    return replace(subject, inputs=inputs)


def _build_described(model: Model, shape: dict[str, int]) -> Subject:
    assert model.inputs_json is not None
    described = input_descriptions.parse(json.loads(model.inputs_json))
    module = _call_target(
        model, shape, input_descriptions.size_names(described), refused=(Exception,)
    )
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"{model.origin} returned {_describe(module)}; with model.inputs it must return a "
            "torch.nn.Module alone"
        )
    inputs = parse_inputs(draw_inputs(described, shape))
    assert inputs is not None
    _check_names(module, inputs.args, inputs.kwargs)
    return Subject(_switch_to_eval(module), inputs)


def _call_target(
    model: Model,
    shape: dict[str, int],
    described: Collection[str],
    refused: tuple[type[Exception], ...],
) -> Any:
    """What the target returns; raises UsageError where it raises `refused`.

    Sizes that are `described` in inputs reach it only where it has an argument of that name.
    """
    kwargs = json.loads(model.args_json)
    function = load(model) if model.pickled else find(model.target)
    if model.architecture is not None:
        kwargs["name"] = model.architecture
    try:
        signature = inspect.signature(function)
        arguments = {**_sizes_for(model, signature, shape, described), **kwargs}
        signature.bind(**arguments)
    except ValueError as error:  # of a function that is not written in Python
        raise UsageError(
            f"{model.origin} cannot be called with {shape | kwargs}: its arguments are unknown; "
            "name a function or class written in Python"
        ) from error
    except TypeError as error:
        raise UsageError(
            f"{model.origin}, which must build the model, cannot be called with {shape | kwargs}: "
            f"{error}; set model.kwargs, or {IN_A_MODULE}"
        ) from error
    try:
        return function(**arguments)
    except refused as error:
        if is_out_of_memory(error):
            raise
        if model.target.startswith(BUILT_IN):
            raise UsageError(str(error)) from error
        reason = str(error) if isinstance(error, ValueError) else one_line(error)
        raise UsageError(
            f"{model.origin} refuses {arguments}: {reason}; change shape or model.kwargs"
        ) from error


def _sizes_for(
    model: Model, signature: inspect.Signature, shape: dict[str, int], described: Collection[str]
) -> dict[str, int]:
    """The sizes to call the target with; raises UsageError for one that nothing takes.

    A function of the user's may take any size as one of its `**kwargs`; in front of a class of
    somebody else's, where inputs are described, a size is more likely a mistake.
    """
    names = _argument_names(signature)
    if model.inputs_json is None and _takes_any_name(signature):
        return shape
    for name, size in shape.items():
        if name not in {*names, *described}:
            known = f"its arguments are {', '.join(names)}" if names else "it names no arguments"
            nor = ", and model.inputs names no such size" if model.inputs_json else ""
            raise UsageError(
                f"shape.{name}={size}: {model.origin} takes no {name} ({known}){nor}; leave it out"
            )
    return {name: size for name, size in shape.items() if name in names}


def find(target: str, key: str = "model.target") -> Callable[..., Any]:
    """The function "module:name", the value of setting `key`; raises UsageError without one."""
    module_name, _, name = target.partition(":")
    try:
        module = _import(module_name)
    except ImportError as error:
        raise UsageError(
            f"{key}={target}: cannot import {module_name} ({error}); install it, put its folder "
            "on PYTHONPATH, or start in its folder"
        ) from error
    except Exception as error:
        raise UsageError(
            f"{key}={target}: importing {module_name} fails ({one_line(error)}); fix it so "
            f'that python -c "import {module_name}" works'
        ) from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None:
        raise UsageError(f"{key}={target}: {module_name} has no function '{name}'")
    if not callable(function):
        raise UsageError(f"{key}={target}: {name} is not a function")
    return function


def _import(name: str) -> ModuleType:
    """The module; the current folder is searched last, after PYTHONPATH and site-packages."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or str(Path.cwd()) in sys.path:
            raise
        sys.path.append(str(Path.cwd()))
        return importlib.import_module(name)


def parse_inputs(example: object) -> Inputs | None:
    """Arguments of forward, their tensors detached; None without a tensor, or for a strange key."""
    if isinstance(example, torch.Tensor):
        example = (example,)
    args = tuple(example) if isinstance(example, (tuple, list)) else ()
    kwargs = dict(example) if isinstance(example, Mapping) else {}
    inputs = Inputs(args, kwargs)
    if not (inputs.tensors() and all(isinstance(name, str) for name in kwargs)):
        return None
    return inputs.map(torch.Tensor.detach)


def _wrong(model: Model, built: object) -> str:
    if isinstance(built, torch.nn.Module) and model.pickled:
        return f"{model.origin} returned a module without inputs; give compare its inputs as well"
    if isinstance(built, torch.nn.Module):
        return (
            f"{model.origin} returned {_describe(built)} without inputs; describe them, as in "
            f"{_example_setting(built)}, or return (torch.nn.Module, example inputs)"
        )
    first = built[0] if isinstance(built, tuple) and built else None
    is_function = callable(first) and not isinstance(first, torch.nn.Module)
    way_out = f"; {IN_A_MODULE}" if is_function else ""
    return (
        f"{model.origin} returned {_describe(built)}; it must return (torch.nn.Module, example "
        "inputs), the inputs as a tuple (by position) or dict (by name), with at least one tensor"
        f"{way_out}"
    )


def _describe(built: object) -> str:
    if isinstance(built, tuple):
        return f"({', '.join(_kind(part) for part in built)})"
    return type(built).__name__


def _kind(part: Any) -> str:
    if isinstance(part, (tuple, list, Mapping)):
        inside = part.values() if isinstance(part, Mapping) else part
        kinds = ", ".join(sorted({type(item).__name__ for item in inside}))
        return f"{type(part).__name__} of {kinds or 'nothing'}"
    return type(part).__name__
