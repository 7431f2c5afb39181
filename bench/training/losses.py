"""What a step minimises: a number made of what forward returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import torch
from torch.nn.functional import mse_loss

from bench.outputs import floating
from bench.records import UsageError
from bench.subject import Inputs, Subject, find, state_kept
from bench.training.choices import LOSSES

Loss = Callable[[Any, Inputs], torch.Tensor]

NOTHING_TO_TRAIN = "the model has no parameter that requires a gradient: nothing can be trained"
NO_OUTPUT = "model.loss={}: forward returns no floating tensor; name a loss of the model's own"
NO_SCALAR = (
    "model.loss=output: forward returned {}; it must return the loss, a tensor of one element, or "
    "something with an attribute or key 'loss'"
)


def mse(output: Any, inputs: Inputs) -> torch.Tensor:
    """Mean squared distance from the targets, added up over the tensors that forward returns."""
    pairs = zip(floating(output), inputs.targets, strict=True)
    return reduce(add, (mse_loss(part, target) for part, target in pairs))


def given(output: Any, inputs: Inputs) -> torch.Tensor:
    """What forward returned is the loss, or holds one called so, as models of transformers do."""
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", output)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise UsageError(NO_SCALAR.format(type(output).__name__))
    return loss


def loss_of(name: str) -> Loss:
    """The loss called `name`: one of LOSSES, or "module:function".

    Such a function is called with what forward returned and the inputs, a tuple or a dict as the
    model gave them, and returns a tensor of one element. Raises UsageError where it is not found.
    """
    if name in LOSSES:
        return find(LOSSES[name].target)
    function = find(name, key="model.loss")

    def theirs(output: Any, inputs: Inputs) -> torch.Tensor:
        loss = function(output, inputs.kwargs or inputs.args)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise UsageError(f"model.loss={name}: it must return a tensor of one element")
        return loss

    return theirs


def check(module: torch.nn.Module, loss: str) -> None:
    """Raises UsageError where nothing can be trained, or there is no such loss."""
    loss_of(loss)
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UsageError(NOTHING_TO_TRAIN)


def trainable(subject: Subject, loss: str, seed: int) -> Subject:
    """`subject` in train mode, with a target for each output where the loss wants targets.

    Targets are standard normal numbers of the outputs' shapes, drawn from `seed`. Raises UsageError
    as `check` does, and where there is no output that could be compared with a target.
    """
    module = subject.module.train()
    check(module, loss)
    if loss not in LOSSES or not LOSSES[loss].compares:
        return subject
    with torch.no_grad(), state_kept(module):
        outputs = floating(module(*subject.inputs.args, **subject.inputs.kwargs))
    if not outputs:
        raise UsageError(NO_OUTPUT.format(loss))
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.randn(out.shape, generator=generator).to(out) for out in outputs)
    return Subject(module, replace(subject.inputs, targets=tuple(targets)))
