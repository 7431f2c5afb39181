"""Builds a model and calls it in plain eager, as its user would, and says what it raises."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch.nn.parameter import is_lazy

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Case, Model
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.input_descriptions import KEY
from modescope.bench.records.results import Ended
from modescope.bench.steps.building import build
from modescope.bench.steps.subject import Inputs, Subject, keep_state

T = TypeVar("T")

LONGEST_ERROR = 200  # characters of torch's message

AS_ONE = (
    "the inputs are a {kind}, which is passed {how}, and forward does not take that; to pass it as "
    "one argument, give a tuple of it: (inputs,)"
)


def build_drawn(case: Case, device: Hardware) -> Subject:
    """Builds the model of `case` with its inputs on `device`; lazy modules get their weights.

    A first call makes torch's lazy modules draw weights. A model that makes other parameters in its
    first call is refused later (`examination.examine`).
    """
    subject = build(case.model, case.largest_shape)
    tensors = (*subject.module.parameters(), *subject.module.buffers())
    if any(map(is_lazy, tensors)):
        outputs(subject)

    def rebuild(seed: int, sizes: Mapping[str, int] | None = None) -> Inputs:
        torch.manual_seed(seed)
        other = build(case.model, {**case.largest_shape, **(sizes or {})}).inputs
        return other.map(lambda tensor: tensor.to(device.torch_device))

    return replace(subject.to(device.torch_device), rebuild=rebuild)


def call_without_gradients(call: Callable[[], T]) -> T:
    """Returns what `call` returns under no_grad, or, if that fails, with gradients.

    Gradients come second because a ScriptModule that was called with them fails in inference mode
    from then on. If both fail, the error of the first call is raised, caused by that of the second.
    """
    try:
        with torch.no_grad():
            return call()
    except Exception as error:
        if _is_final(error):
            raise
        first = error
    try:
        with torch.enable_grad():
            return call()
    except Exception as error:
        if _is_final(error):
            raise
        raise first from error


def _is_final(error: Exception) -> bool:
    return isinstance(error, (Ended, UsageError)) or is_out_of_memory(error)


def outputs(subject: Subject) -> Any:
    """Returns what the model returns for its inputs, called without gradients if that works."""
    return call_without_gradients(lambda: _call(subject, nullcontext()))


def _call(subject: Subject, grad: AbstractContextManager[Any]) -> Any:
    with grad, keep_state(subject.module):
        return subject.call()


def find_misuse(subject: Subject) -> str | None:
    """Returns how to pass the inputs as one argument, if forward takes that and not several."""
    inputs = next(iter(subject.parts.values()), subject).inputs
    try:
        signature = inspect.signature(subject.module.forward)
        signature.bind(inputs)
    except (TypeError, ValueError):  # ValueError: not written in Python
        return None
    try:
        signature.bind(*inputs.args, **inputs.kwargs)
    except TypeError:
        kind, how = ("dict", "by name") if inputs.kwargs else ("tuple or list", "by position")
        return AS_ONE.format(kind=kind, how=how)
    return None


def find_failure(subject: Subject, grad: AbstractContextManager[Any]) -> str | None:
    """Calls the model within `grad`; returns the message of its error, None if the call works."""
    try:
        _call(subject.cast(None), grad)
    except Exception as error:
        return one_line(error, LONGEST_ERROR)
    return None


def try_call(subject: Subject, device: Hardware, model: Model, shape: Mapping[str, int]) -> None:
    """Raises UsageError if forward of `subject` fails on `device`, unless it lacks memory.

    A case that needs too much memory is still measured, and recorded as such.
    """
    module = subject.module
    try:
        outputs(subject.to(device.torch_device))
        device.synchronize()  # only then does a GPU tell of an index out of range
    except Exception as error:
        if is_out_of_memory(error):
            return
        mode = "train()" if module.training else "eval()"
        sizes = " ".join(f"shape.{name}={size}" for name, size in shape.items())
        given = " and ".join(filter(None, (sizes, model.inputs_json and KEY))) or "these inputs"
        raise UsageError(
            f"{model.name} fails in {mode} with {given}: "
            f"{one_line(error, LONGEST_ERROR)}; {find_misuse(subject) or 'choose others'}"
        ) from error
