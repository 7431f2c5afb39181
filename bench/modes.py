"""A mode turned into a callable: one line per axis, and no axis knows another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.devices import Hardware, Step
from bench.records import Variant
from bench.subject import Inputs, Subject

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}

GRAD: dict[str, Callable[[], AbstractContextManager[Any]] | None] = {
    "enabled": None,  # the state a program starts in: nothing to enter
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}

MATMUL_PRECISION = {"tf32": "high"}
"""`torch.set_float32_matmul_precision` per dtype; all others compute fp32 in full."""


@dataclass(frozen=True)
class Built:
    """A variant ready to run."""

    subject: Subject  # its own weights and inputs
    target: torch.nn.Module  # what a call goes to: the module, compiled or not
    live: Step  # a call that really calls the target
    step: Step  # what is timed: `live`, or a replay of it


def weight_dtype(variant: Variant) -> torch.dtype:
    """Autocast casts per op and keeps fp32 weights; otherwise weights are cast once."""
    return torch.float32 if variant.mode.autocast else DTYPES[variant.dtype]


def build(subject: Subject, variant: Variant, fullgraph: bool, device: Hardware) -> Built:
    """Wraps `subject`, which must already have the variant's `weight_dtype`.

    Captures if the mode says so, which runs the step; compiles with the first call otherwise.
    """
    target = _compiled(subject.module, variant.mode.compile, fullgraph)
    live = _in_contexts(target, subject.inputs, variant, device.type)
    return Built(subject, target, live, device.capture(live) if variant.mode.graph else live)


def _in_contexts(
    target: torch.nn.Module, inputs: Inputs, variant: Variant, device_type: str
) -> Step:
    """Calls `target` as a user writes it: the contexts are entered anew with every call."""
    args, kwargs = inputs.args, inputs.kwargs

    def call() -> Any:
        return target(*args, **kwargs)

    step: Step = call
    if variant.mode.autocast:
        step = _under(partial(torch.autocast, device_type, DTYPES[variant.dtype]), step)
    grad = GRAD[variant.mode.grad]
    return _under(grad, step) if grad else step


def _compiled(module: torch.nn.Module, mode: str, fullgraph: bool) -> torch.nn.Module:
    if mode == "none":
        return module
    compiled = torch.compile(module, mode=mode, fullgraph=fullgraph)
    assert isinstance(compiled, torch.nn.Module)
    return compiled


def _under(context: Callable[[], AbstractContextManager[Any]], step: Step) -> Step:
    def inside() -> object:
        with context():
            return step()

    return inside
