"""Builds the step of a mode. Each axis is applied on its own, independent of the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from modescope.bench.devices.devices import Hardware, Series, Step, alone, prepare_like
from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import UsageError
from modescope.bench.steps import arguments, backends
from modescope.bench.steps.subject import Built, Inputs, Subject

if TYPE_CHECKING:
    from modescope.bench.steps.phases import Phase

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}

GRAD: dict[str, Callable[[], AbstractContextManager[Any]] | None] = {
    "enabled": None,  # the default state of a program
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}

MATMUL_PRECISION = {"tf32": "high"}
"""`torch.set_float32_matmul_precision` per dtype; "highest" for all others."""

UNGRAPHABLE = (
    "train.capture=forward_backward: make_graphed_callables takes only tensors by position, not "
    "input {} of the model; use train.capture=step"
)


def weight_dtype(variant: Variant) -> torch.dtype:
    """fp32 for autocast, which casts per op; otherwise the dtype that weights are cast to once."""
    return torch.float32 if variant.mode.autocast else DTYPES[variant.dtype]


def build(
    subject: Subject,
    variant: Variant,
    fullgraph: bool,
    device: Hardware,
    phase: Phase,
    start: Any = None,
) -> Built:
    """Wraps `subject`, which must already have the variant's `weight_dtype`.

    A manual capture happens here and runs the step; compiling happens in the first call. Steps are
    those of `phase` and start from `start`, or else from the present weights. The caller restores
    what the steps of a capture changed.
    """
    target = backends.find(variant.mode).build(subject.module, variant.mode, fullgraph)
    graphed = phase.graphs_parts(variant.mode)
    if graphed:
        _check_graphable(subject.inputs)
        target = device.make_graph(_Around(target, variant, device.type), subject.given.args)

    def built(own: Subject) -> Built:
        call = arguments.call_of(own, target)
        called = phase.forward(alone(call), own.inputs)
        forward = prepare_like(_enter_contexts(called, variant, device.type), call)
        live, step, state = phase.steps(own.module, forward, variant, device, start)
        return Built(own, target, live, step, state, graphed)

    if not subject.order:
        return built(subject)
    parts = {name: built(subject.parts[name]) for name in dict.fromkeys(subject.order)}
    ordered = [parts[name] for name in subject.order]
    live = Series(tuple(part.live for part in ordered))
    same = all(part.live is part.step for part in ordered)
    step = live if same else Series(tuple(part.step for part in ordered))
    return Built(subject, target, live, step, parts=parts)


def _check_graphable(inputs: Inputs) -> None:
    """Raises UsageError unless all inputs are tensors, given by position."""
    others = (n for n, value in enumerate(inputs.args) if not isinstance(value, torch.Tensor))
    if (other := next(iter((*inputs.kwargs, *others)), None)) is not None:
        raise UsageError(UNGRAPHABLE.format(other))


class _Around(torch.nn.Module):
    """Graphed instead of the model, because graphing replaces a module's forward for good.

    It enters the contexts itself: around make_graphed_callables, they would also apply to the
    captured backward, unlike in a user's step (github.com/pytorch/pytorch/issues/120930).
    """

    def __init__(self, model: torch.nn.Module, variant: Variant, device_type: str) -> None:
        super().__init__()
        self.model, self.variant, self.device_type = model, variant, device_type

    def forward(self, *args: torch.Tensor) -> Any:
        """The model's output."""
        return _enter_contexts(lambda: self.model(*args), self.variant, self.device_type)()


def _enter_contexts(step: Step, variant: Variant, device_type: str) -> Step:
    """`step` as a user writes it: every call enters the contexts."""
    if variant.mode.autocast:
        step = _under(partial(torch.autocast, device_type, DTYPES[variant.dtype]), step)
    grad = GRAD[variant.mode.grad]
    return _under(grad, step) if grad else step


def _under(context: Callable[[], AbstractContextManager[Any]], step: Step) -> Step:
    def inside() -> object:
        with context():
            return step()

    return inside
