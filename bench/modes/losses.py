"""The losses that a step can minimise, computed from forward's outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import torch
from torch.nn.functional import mse_loss

from modescope.bench.model import plain_call
from modescope.bench.model.building import find
from modescope.bench.model.outputs import floating_tensors
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.records.errors import UsageError
from modescope.bench.records.optimizers import LOSSES

LossFunction = Callable[[Any, Inputs], torch.Tensor]

NOTHING_TO_TRAIN = "the model has no parameter that requires a gradient: nothing can be trained"
NO_OUTPUT = "model.loss={}: forward returns no floating tensor; name a loss made for this model"
NO_SCALAR = (
    "model.loss=output: forward returned {}; it must return the loss, a tensor of one element, or "
    "something with an attribute or key 'loss'; for other outputs name a function of output and "
    "inputs that returns the loss: model.loss=module:function"
)


def mse(output: Any, inputs: Inputs) -> torch.Tensor:
    """Returns the sum of mean squared errors of floating outputs against `inputs.targets`.

    Raises ValueError if there are more or fewer targets than floating outputs.
    """
    pairs = zip(floating_tensors(output), inputs.targets, strict=True)
    return reduce(add, (mse_loss(part, target) for part, target in pairs))


def returned_loss(output: Any, inputs: Inputs) -> torch.Tensor:
    """Returns the loss that forward returned: its output, or that output's attribute or key `loss`.

    Models of transformers have such an attribute. Raises UsageError if it is not a tensor of one
    element.
    """
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", output)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise UsageError(NO_SCALAR.format(type(output).__name__))
    return loss


def loss_of(name: str) -> LossFunction:
    """Returns the loss function called `name`: one of LOSSES, or "module:function".

    A function of the user takes forward's output and the inputs (a tuple or a dict, as the model
    gave them) and returns a tensor of one element. Raises UsageError if it is not found.
    """
    if name in LOSSES:
        return find(LOSSES[name].target)
    function = find(name, key="model.loss")

    def checked(output: Any, inputs: Inputs) -> torch.Tensor:
        loss = function(output, inputs.kwargs or inputs.args)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise UsageError(f"model.loss={name}: it must return a tensor of one element")
        return loss

    return checked


def check(module: torch.nn.Module, loss: str) -> None:
    """Raises UsageError if nothing can be trained, or there is no such loss.

    A module that is not made for training says so in its attribute `cannot_train`.
    """
    loss_of(loss)
    if reason := getattr(module, "cannot_train", None):
        raise UsageError(f"phase=train: {reason}")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UsageError(NOTHING_TO_TRAIN)


def trainable(subject: Subject, loss: str, seed: int) -> Subject:
    """Returns `subject` in train mode, with a target for each output if the loss needs targets.

    Targets are standard normal numbers of the outputs' shapes, drawn from `seed`. Raises UsageError
    as `check` does, and if no output can be compared with a target.
    """
    module = subject.module.train()
    check(module, loss)
    if loss not in LOSSES or not LOSSES[loss].compares:
        return subject
    outputs = floating_tensors(plain_call.outputs(subject.cast(None)))
    if not outputs:
        raise UsageError(NO_OUTPUT.format(loss))
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.randn(out.shape, generator=generator).to(out) for out in outputs)
    return replace(subject, inputs=replace(subject.inputs, targets=tuple(targets)))
