"""Builds the model under test: calls the function that `model.target` names, and makes inputs."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.model import geometry, torch_settings, trees
from modescope.bench.model.pickled_model import load
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.records import input_descriptions
from modescope.bench.records.cases import BUILT_IN, Model
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.input_descriptions import TensorDescription


def build(model: Model, shape: dict[str, int]) -> Subject:
    """Builds the module and inputs of `model` for `shape`, in fp32 on the CPU, in `eval()`.

    Settings of torch that the target (the user's function) changes are restored, and named in
    `Subject.put_back`. Raises UsageError if the target cannot be found or called with these
    arguments. Raises it also if the target does not return (module, inputs), or with
    `model.inputs`, a module alone.
    """
    with torch_settings.keep() as changed:
        subject = _build_described(model, shape) if model.inputs_json else _build_pair(model, shape)
    with suppress(NotImplementedError):  # an exported program was traced in one of the modes
        subject.module.eval()
    return replace(subject, put_back=tuple(changed))


def _build_pair(model: Model, shape: dict[str, int]) -> Subject:
    built = _call_target(model, shape, ())
    module, example = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    inputs = parse_inputs(example)
    if inputs is None or not isinstance(module, torch.nn.Module):
        if isinstance(built, torch.nn.Module):
            text = "a module without inputs; describe them in model.inputs, or return both"
        else:
            text = f"{_describe(built)}; it must return (torch.nn.Module, example inputs)"
        raise UsageError(
            f"{model.origin} returned {text}, the inputs as a tuple (by position) or dict (by "
            "name), with at least one tensor"
        )
    for place, leaf in trees.leaves(example):
        if not isinstance(leaf, (torch.Tensor, *trees.PLAIN)):
            raise UsageError(
                f"{model.origin} returned inputs of which {place} is of type "
                f"{type(leaf).__name__}; an input is a tensor, number, bool, string or None, alone "
                "or in tuples, lists, dicts, dataclasses or registered pytrees"
            )
    return Subject(module, inputs)


def _build_described(model: Model, shape: dict[str, int]) -> Subject:
    assert model.inputs_json is not None
    described = input_descriptions.parse(json.loads(model.inputs_json))
    module = _call_target(model, shape, input_descriptions.size_names(described))
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"{model.origin} returned {_describe(module)}; with model.inputs it must return a "
            "torch.nn.Module alone"
        )
    inputs = parse_inputs(draw_inputs(described, shape))
    assert inputs is not None
    return Subject(module, inputs)


def draw_inputs(parsed: Any, sizes: Mapping[str, int]) -> Any:
    """Returns `parsed` with a random tensor in place of each description of a tensor.

    `parsed` comes from `bench.records.input_descriptions.parse`; `sizes` maps names of dimensions
    to lengths. Numbers come from torch's global generator.
    """

    def draw(described: TensorDescription) -> torch.Tensor:
        size = [sizes[length] if isinstance(length, str) else length for length in described.size]
        dtype: torch.dtype = getattr(torch, described.dtype)
        low, high = described.low or 0, described.high
        if dtype is torch.bool:
            return torch.randint(2, size, dtype=dtype)
        if not dtype.is_floating_point:
            assert high is not None
            return torch.randint(int(low), int(high), size, dtype=dtype)
        return torch.randn(size) if high is None else torch.empty(size).uniform_(low, high)

    return input_descriptions.map_descriptions(draw, parsed)


def parse_inputs(example: object) -> Inputs | None:
    """Turns `example` into arguments of forward, with tensors that are leaves of autograd.

    A tensor, tuple or list is passed by position, a mapping by name. Returns None if `example` has
    no tensor, or a key that is not a string.
    """
    if isinstance(example, torch.Tensor):
        example = (example,)
    args = tuple(example) if isinstance(example, (tuple, list)) else ()
    kwargs = dict(example) if isinstance(example, Mapping) else {}
    inputs = Inputs(args, kwargs)
    if not (inputs.tensors() and all(isinstance(name, str) for name in kwargs)):
        return None
    return inputs.map(lambda tensor: geometry.leaf(tensor, tensor))


def _describe(built: object) -> str:
    if isinstance(built, tuple):
        return f"({', '.join(type(part).__name__ for part in built)})"
    return type(built).__name__


def _call_target(model: Model, shape: dict[str, int], described: Collection[str]) -> Any:
    """Returns what the target of `model` returns; raises UsageError if it refuses its arguments.

    `described` are names of sizes that the inputs use. The target gets these only if it takes them.
    """
    kwargs = json.loads(model.args_json)
    function = load(model) if model.pickled else find(model.target)
    if model.architecture is not None:
        kwargs["name"] = model.architecture
    takes = ""
    try:
        signature = inspect.signature(function)
        takes = f"; it takes {', '.join(signature.parameters) or 'nothing'}"
        arguments = {**_sizes_for(model, signature, shape, described), **kwargs}
        signature.bind(**arguments)
    except (TypeError, ValueError) as error:  # ValueError: not written in Python
        raise UsageError(
            f"{model.origin}, which must build the model, cannot be called with {shape | kwargs}: "
            f"{error}{takes}; set model.kwargs"
        ) from error
    # a class that is not ours may raise anything for wrong arguments
    refusal = Exception if model.inputs_json or model.pickled else ValueError
    try:
        return function(**arguments)
    except refusal as error:
        if is_out_of_memory(error):
            raise
        if model.target.startswith(BUILT_IN):
            raise UsageError(str(error)) from error
        raise UsageError(f"{model.origin} raised {one_line(error)}, with {arguments}") from error


def _sizes_for(
    model: Model, signature: inspect.Signature, shape: dict[str, int], described: Collection[str]
) -> dict[str, int]:
    """Returns the sizes in `shape` that the target takes as arguments.

    `signature` is the target's. `described` are names of sizes that descriptions of the inputs use.
    Raises UsageError for a size that neither target nor inputs use. A target with `**kwargs` takes
    any size, unless inputs are described: such a target is often a class of another library, and an
    unused size is more likely a mistake.
    """
    kinds = {parameter.name: parameter.kind for parameter in signature.parameters.values()}
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [name for name, kind in kinds.items() if kind not in any_number]
    if not model.inputs_json and inspect.Parameter.VAR_KEYWORD in kinds.values():
        return shape
    for name, size in shape.items():
        if name not in {*names, *described}:
            raise UsageError(
                f"shape.{name}={size}: {model.origin} takes no {name}, only "
                f"{', '.join((*names, *described)) or 'nothing'}; leave it out"
            )
    return {name: size for name, size in shape.items() if name in names}


def find(target: str, key: str = "model.target") -> Callable[..., Any]:
    """Returns the function that `target` names as "module:name"; raises UsageError without one.

    `key` is the setting that the error names.
    """
    module_name, _, name = target.partition(":")
    try:
        module = _import(module_name)
    except Exception as error:
        raise UsageError(
            f"{key}={target}: cannot import {module_name} ({one_line(error)}); install it, put its "
            "folder on PYTHONPATH, or start in its folder"
        ) from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        known = [word for word, value in vars(module).items() if callable(value)]
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
        raise UsageError(f"{key}={target}: {module_name} has no function '{name}'{hint}")
    return function


def _import(name: str) -> ModuleType:
    """Imports a module; searches the current folder last, after PYTHONPATH and site-packages."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or str(Path.cwd()) in sys.path:
            raise
        sys.path.append(str(Path.cwd()))
        return importlib.import_module(name)
