"""Builds the step of a mode in a phase. Each axis of the mode is applied independently."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.compiler.config

from modescope.bench.devices.devices import (
    CallSequence,
    Hardware,
    Step,
    bare_call,
    prepare_first,
    prepare_like,
)
from modescope.bench.model import arguments
from modescope.bench.model.made import Made
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import axes, backends, fp32_products
from modescope.bench.modes.backends import BuildContext
from modescope.bench.modes.phase import Phase
from modescope.bench.records import files
from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import UsageError

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}

UNGRAPHABLE = (
    "train.capture=forward_backward: make_graphed_callables takes only tensors by position, not "
    "input {} of the model; use train.capture=step"
)


def weight_dtype(variant: Variant) -> torch.dtype:
    """Returns the dtype of weights: the variant's, or fp32 under autocast, which casts later."""
    return torch.float32 if variant.mode.autocast else DTYPES[variant.dtype]


def prepare(subject: Subject, variant: Variant, phase: Phase) -> Subject:
    """Returns a copy of `subject` with the weights, inputs and modules that `variant` calls."""
    own = subject.cast(weight_dtype(variant))
    return phase.own(axes.prepare(own, variant))


def build(
    subject: Subject,
    variant: Variant,
    fullgraph: bool,
    device: Hardware,
    phase: Phase,
    start: Any = None,
    made: Callable[..., Any] | None = None,
) -> Built:
    """Builds the step of `variant` in `phase` on `subject`, a result of `prepare`.

    Steps start from `start`, or from the present weights if `start` is None. `fullgraph`: whether
    graph breaks are errors. A manual capture happens here and runs the step; the caller restores
    what that changed. Its graph has inputs of its own, into which each step copies first.
    Compilation happens in the first call. `made` is called instead of what the mode's backend makes
    of the module.
    """
    if subject.switches:  # what is captured here runs without its preparation
        axes.switch(subject.switches, variant)
        # torch's cache of compiled code does not know what these switches change
        torch.compiler.config.cache_key_tag = axes.describe(subject.switches, variant)
    first = next(iter(subject.parts.values()), subject)
    context = BuildContext(device.type, fullgraph, files.make_folder)
    if made is None:
        with ExitStack() as stack:  # guards that are loaded note contexts: those of the calls
            for entered in reversed(axes.contexts(variant, device.type)):  # the outermost first
                stack.enter_context(entered())
            build_it = backends.find(variant.mode).build
            made = build_it(subject.module, first.given, variant.mode, context)
    target = made if isinstance(made, torch.nn.Module) else _Calling(made)
    facts = getattr(made, "made", Made())
    graphed = phase.graphs_parts(variant.mode)
    if variant.mode.graph and not graphed:
        subject = replace(subject, graphs_on=device.torch_device)
    if graphed:
        given = subject.inputs
        others = (n for n, value in enumerate(given.args) if not isinstance(value, torch.Tensor))
        if (other := next(iter((*given.kwargs, *others)), None)) is not None:
            raise UsageError(UNGRAPHABLE.format(other))
        sample = arguments.sample_of(subject)
        target = device.make_graph(_Around(target, variant, device.type), sample.args)

    def built(own: Subject) -> Built:
        call = arguments.call_of(own, target)
        inputs = own.given if own.graphs_on else own.inputs
        called = phase.forward(bare_call(call), inputs)
        forward = prepare_like(enter_contexts(called, variant, device.type), call)
        if own.alternates:
            forward = fp32_products.switched(forward, variant.dtype)
        if own.switches:
            forward = prepare_first(forward, partial(axes.switch, own.switches, variant))
        live, step, state = phase.steps(own.module, forward, variant, device, start)
        timed = arguments.fill_first(step, own)
        return Built(own, target, live, timed, state, graphed, made=facts)

    if not subject.order:
        return built(subject)
    parts = {name: built(subject.parts[name]) for name in dict.fromkeys(subject.order)}
    ordered = [parts[name] for name in subject.order]
    live = CallSequence(tuple(part.live for part in ordered))
    same = all(part.live is part.step for part in ordered)
    step = live if same else CallSequence(tuple(part.step for part in ordered))
    return Built(subject, target, live, step, parts=parts, made=facts)


class _Calling(torch.nn.Module):
    """Calls a function that a backend made, which takes the model's arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class _Around(torch.nn.Module):
    """Calls the model within the mode's contexts; is captured in place of the model.

    make_graphed_callables permanently replaces the forward of the module that it captures, so it
    gets this wrapper. Contexts around make_graphed_callables would also apply to the captured
    backward, unlike in a user's step (github.com/pytorch/pytorch/issues/120930), so the wrapper
    enters them.
    """

    def __init__(self, model: torch.nn.Module, variant: Variant, device_type: str) -> None:
        super().__init__()
        self.model, self.variant, self.device_type = model, variant, device_type

    def forward(self, *args: torch.Tensor) -> Any:
        return enter_contexts(lambda: self.model(*args), self.variant, self.device_type)()


def enter_contexts(step: Step, variant: Variant, device_type: str) -> Step:
    """Returns a step that enters the contexts of the mode's axes in each call, as users do."""
    for context in axes.contexts(variant, device_type):
        step = _under(context, step)
    return step


def _under(context: Callable[[], AbstractContextManager[Any]], step: Step) -> Step:
    def inside() -> object:
        with context():
            return step()

    return inside
