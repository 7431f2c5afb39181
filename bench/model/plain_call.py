"""Builds a model and calls it in plain eager, as its user would, and says what it raises."""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch.nn.parameter import is_lazy

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.devices import Hardware, prepare_call
from modescope.bench.model import arguments, copies, module_state
from modescope.bench.model.building import build
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.records.cases import Case, Model
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.input_descriptions import KEY
from modescope.bench.records.results import Ended

T = TypeVar("T")

LONGEST_ERROR = 200  # characters of torch's message

SLOW_BUILD_S = 2.0
"""A builder that takes longer is called once, and its module copied, if a copy is as good."""
AS_ONE = (
    "the inputs are a {kind}, which is passed {how}, and forward does not take that; to pass it as "
    "one argument, give a tuple of it: (inputs,)"
)

ONE_MODULE = (
    "{origin} returns parts of the same module each time, and modescope needs several in one "
    "process; build a new module in each call of the builder"
)

NO_COPY = (
    "modescope needs several copies of the model in one process (the mode, its baseline, a "
    "reference), but {origin} {other}, and {why}; build a new module in each call of the builder"
)


@dataclass(frozen=True)
class Drawn:
    """A model as it was built, twice.

    Neither module was called, except to make the weights of lazy modules. One is to be called in
    plain eager, and further modules get the values of the other, which is never called. The one to
    call is what the builder made first, unless there are only copies of that.
    """

    subject: Subject  # whose module is never called
    to_call: torch.nn.Module  # as if it were the user's


def build_drawn(case: Case, device: Hardware) -> Drawn:
    """Builds the model of `case` with its inputs on `device`; lazy modules get their weights.

    A first call makes torch's lazy modules draw weights. A model that makes other parameters in its
    first call is refused later (`examination.examine`). The builder is called for every further
    module, from the same random numbers, if it takes no longer than SLOW_BUILD_S, or if a copy
    would be another program. If it gives no module of its own each time, there are copies only;
    raises UsageError if these would be another program.
    """
    restore_generators, start = copies.generator_states(), time.perf_counter()
    first = _build_once(case)
    is_slow = time.perf_counter() - start > SLOW_BUILD_S

    def again() -> torch.nn.Module:
        with copies.keep_generators():
            restore_generators()
            return _build_once(case).module

    def rebuild(seed: int, sizes: Mapping[str, int] | None = None) -> Inputs:
        torch.manual_seed(seed)
        other = build(case.model, {**case.largest_shape, **(sizes or {})}).inputs
        return other.map(lambda tensor: tensor.to(device.torch_device))

    kernels = _builder_of_kernels(case, restore_generators)
    subject = replace(first, rebuild=rebuild, kernels=kernels, alternates=case.alternates)
    why_not = copies.why_not_copied(first.module) if is_slow else "not tried"
    if why_not:  # so the builder has to be called again, whatever that takes
        second, other = _build_again(again, first.module)
        why_not = other and copies.why_not_copied(first.module)
        is_usable = second is not None and not _has_other_structure(first.module, second)
        if second is not None and (other is None or (why_not and is_usable)):
            subject = replace(subject, again=again)
            copies.load(second, first.module)
            drawn = replace(subject, module=second).to(device.torch_device)
            return Drawn(drawn, first.module.to(device.torch_device))
        if why_not:
            raise UsageError(NO_COPY.format(origin=case.model.origin, other=other, why=why_not))
    subject = subject.to(device.torch_device)
    return Drawn(subject, subject.another())


def _builder_of_kernels(
    case: Case, restore_generators: Callable[[], None]
) -> Callable[[str], torch.nn.Module]:
    """Returns a function that builds another implementation of the case's model, by its name.

    It raises UsageError if the builder returns parts of an earlier module.
    """
    made: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def build_other(name: str) -> torch.nn.Module:
        other = replace(case, model=case.model.implementation(name))
        with copies.keep_generators():
            restore_generators()
            module = _build_once(other).module
        if any(copies.shares_memory(earlier, module) for earlier in made):
            raise UsageError(ONE_MODULE.format(origin=other.model.origin))
        made.add(module)
        return module

    return build_other


def _build_once(case: Case) -> Subject:
    subject = build(case.model, case.largest_shape)
    tensors = (*subject.module.parameters(), *subject.module.buffers())
    if any(map(is_lazy, tensors)):
        outputs(subject)
    return subject


def _build_again(
    again: Callable[[], torch.nn.Module], first: torch.nn.Module
) -> tuple[torch.nn.Module | None, str | None]:
    """Returns another module, and why it cannot stand for the first; None if it can.

    The module is None if the builder cannot be called twice.
    """
    try:
        second = again()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return None, f"fails when it is called again ({one_line(error, LONGEST_ERROR)})"
    if copies.shares_memory(first, second):
        return second, "returns parts of the same module each time"
    was, now = (copies.describe(module, values=True) for module in (first, second))
    if differences := copies.differences(was, now):
        return second, f"returns another module each time ({copies.shorten_list(differences)})"
    return second, None


def _has_other_structure(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    same = copies.describe(first) == copies.describe(second)
    return not same or copies.shares_memory(first, second)


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


@dataclass(frozen=True)
class Examined:
    """A model after its first calls in plain eager.

    `subject` knows the arguments and the state that they change; its module was not called, and
    that of `plain` was. `left` are places of state that calls may change and that are not put back.
    """

    subject: Subject
    plain: Subject
    left: tuple[str, ...]


def find_changes(subject: Subject, to_call: torch.nn.Module, trains: bool) -> Examined:
    """Finds the arguments and the state that calls in plain eager change.

    The calls are of `to_call`, a module like the subject's. `trains`: whether a step also runs
    backward, which gives gradients to the arguments that require them.
    """
    if to_call.training != subject.module.training:
        to_call.train(subject.module.training)
    plain, found = replace(subject, module=to_call), list[tuple[str, ...]]()
    call = partial(call_without_gradients, lambda: found.append(arguments.find_changes(plain)))
    state = module_state.find_changes(to_call, subject.module, call)
    changes, places, left = found[0], state.places, state.unseen
    if trains:
        places = module_state.put_back_in_training(to_call, places)
        tensors = [(at, x) for at, x in subject.inputs.leaves() if isinstance(x, torch.Tensor)]
        graded = [place for place, tensor in tensors if tensor.requires_grad]
        changes = tuple(dict.fromkeys([*changes, *graded]))
    if subject.order:  # a pass is timed as a whole, with nothing between its calls
        places, left = (), (*left, *places)
    subject = replace(subject, changes=changes, state=places, warm=state.warm)
    plain = replace(subject, module=to_call)
    if places:
        restore = state.start.restorer(frozenset(places))
        restore()  # as copies may share an object with `to_call`
        plain = replace(plain, restore=restore)
    return Examined(subject.remember_state(), plain, left)


def outputs(subject: Subject) -> Any:
    """Returns what the model returns for its inputs, called without gradients if that works."""

    def call() -> Any:
        with keep_state(subject.module):
            return subject.call()

    return call_without_gradients(call)


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
    own = subject.cast(None)
    call = prepare_call(arguments.call_of(own, own.module))  # copied before `grad` is entered
    try:
        with grad:
            call()
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
