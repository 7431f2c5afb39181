"""A mode turned into a callable: one line per axis, and no axis knows another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.devices import Hardware, Step
from bench.records import Training, UsageError, Variant
from bench.subject import Subject, state_kept
from bench.training.losses import loss_of
from bench.training.trainer import Start, Trainer, trainer

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

POSITIONAL_ALONE = (
    "train.capture=forward_backward: make_graphed_callables takes positional arguments alone, and "
    "the model's example inputs are named; give them as a tuple, or capture the step"
)


@dataclass(frozen=True)
class Built:
    """A variant ready to run."""

    subject: Subject  # its own weights and inputs
    target: torch.nn.Module  # what a call goes to: the module, compiled or not
    live: Step  # a call that really calls the target
    step: Step  # what is timed: `live`, or a replay of it
    trainer: Trainer | None = None  # of a step that trains
    graphed: bool = False  # forward and backward are a graph each

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Undoes what calls change: buffers, and in training all that is trained."""
        with (
            state_kept(self.subject.module),
            self.trainer.kept() if self.trainer else nullcontext(),
        ):
            yield

    def settle(self) -> None:
        """Training is at its start, with a loss scale that fits; nothing is to do for inference."""
        if self.trainer:
            with self.kept():
                self.trainer.settle_scale(self.step)

    def restore(self) -> None:
        """Training starts anew; nothing is to do for inference."""
        if self.trainer:
            self.trainer.restore()

    def tensors(self) -> list[torch.Tensor]:
        """Weights, buffers, inputs, and what an optimizer keeps."""
        return [*self.subject.tensors(), *(self.trainer.state() if self.trainer else ())]


def weight_dtype(variant: Variant) -> torch.dtype:
    """Autocast casts per op and keeps fp32 weights; otherwise weights are cast once."""
    return torch.float32 if variant.mode.autocast else DTYPES[variant.dtype]


def build(
    subject: Subject,
    variant: Variant,
    fullgraph: bool,
    device: Hardware,
    training: Training | None = None,
    start: Start | None = None,
) -> Built:
    """Wraps `subject`, which must already have the variant's `weight_dtype`.

    Captures if the mode says so, which runs the step; compiles with the first call otherwise. With
    `training` the step trains, from `start` or else from the weights as they are: the caller
    restores what the capture's own steps changed.
    """
    target = _compiled(subject.module, variant.mode.compile, fullgraph)
    graphed = variant.mode.graph and training is not None and training.capture != "step"
    if graphed:
        target = _graphed(target, subject, variant, device)
    called = _called(target, subject, variant, device, training)
    forward = _in_contexts(called, variant, device.type)
    if training is None:
        return Built(subject, target, forward, _captured(forward, variant.mode.graph, device))
    trained = trainer(subject.module, forward, training, variant, device.type, start)
    if not training.captures_step(variant.mode):
        return Built(subject, target, trained.step, trained.step, trained, graphed)
    # Of the loss the tape is dropped: it would hold nodes of the capture's stream, for which every
    # live step would then wait.
    step = device.capture(lambda: trained.step().detach())
    trained.is_captured()
    return Built(subject, target, trained.step, step, trained)


def _graphed(
    model: torch.nn.Module, subject: Subject, variant: Variant, device: Hardware
) -> torch.nn.Module:
    """Forward and backward as a graph each."""
    if subject.inputs.kwargs:
        raise UsageError(POSITIONAL_ALONE)
    return device.graphed(_Around(model, variant, device.type), subject.inputs.args)


class _Around(torch.nn.Module):
    """What is graphed in place of the model: a graphed module's forward is replaced for good.

    It enters the contexts itself. Within contexts, make_graphed_callables would capture the
    backward in them, too, which no user's step does (github.com/pytorch/pytorch/issues/120930).
    """

    def __init__(self, model: torch.nn.Module, variant: Variant, device_type: str) -> None:
        super().__init__()
        self.model, self.variant, self.device_type = model, variant, device_type

    def forward(self, *args: torch.Tensor) -> Any:
        """What the model returns."""
        return _in_contexts(lambda: self.model(*args), self.variant, self.device_type)()


def _captured(step: Step, asked: bool, device: Hardware) -> Step:
    return device.capture(step) if asked else step


def _called(
    target: torch.nn.Module,
    subject: Subject,
    variant: Variant,
    device: Hardware,
    training: Training | None,
) -> Step:
    """A forward, and in training the loss of it."""
    args, kwargs = subject.inputs.args, subject.inputs.kwargs

    def call() -> Any:
        return target(*args, **kwargs)

    if training is None:
        return call
    loss = loss_of(training.loss)
    return lambda: loss(call(), subject.inputs)


def _in_contexts(step: Step, variant: Variant, device_type: str) -> Step:
    """`step` as a user writes it: the contexts are entered anew with every call."""
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
