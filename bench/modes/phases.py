"""The phases, which say what a step does: one call, calls of different sizes, or training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler

from modescope.bench.devices.devices import Hardware, Step, bare_call, prepare_like
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import compiled_optimizer, losses
from modescope.bench.modes.phase import Phase
from modescope.bench.modes.trainer import (
    RECOMPUTING,
    Start,
    Trainer,
    optimizer,
    start_of,
)
from modescope.bench.records.cases import (
    Inference,
    Mode,
    PhaseOptions,
    Training,
    Variant,
    size_name,
)

ONE_CALL = Phase(Inference())


@dataclass(frozen=True)
class MixedPhase(Phase):
    """A step is a pass over calls of different sizes; the outputs of each size are checked.

    The inputs of all sizes are one tree, so they are copied, cast, moved and redrawn like those of
    any model. Each size has its own `Subject` and `Built`, which are called, captured and compared;
    all of them share the module.
    """

    options: Inference

    no_dispatch = "calls of different sizes have no empty batch of their own"

    def prepare(self, subject: Subject, seed: int) -> Subject:
        """Returns `subject` with inputs of all sizes, made by its builder from `seed`."""
        assert subject.rebuild is not None
        true, padded = self.options.calls(), self.options.calls(padded=True)
        by_label = {size_name(sizes): sizes for sizes in (*true, *padded)}
        inputs = {}
        for name, sizes in by_label.items():
            made = subject.rebuild(seed, sizes)
            inputs[name] = (made.args, made.kwargs)
        return replace(
            subject,
            inputs=Inputs((inputs,), {}),
            order=tuple(map(size_name, padded)),
            order_of_baseline=tuple(map(size_name, true)),
        )


@dataclass(frozen=True)
class TrainingPhase(Phase):
    """A step drops gradients, computes the loss and its gradients, and updates parameters."""

    options: Training

    trains = True
    no_dispatch = (
        "in training the optimizer and the gradients of weights have work on an empty batch too"
    )

    def apply_settings(self) -> None:
        """Sets the compiler's memory budget for activations, if there is one."""
        budget = self.options.activation_memory_budget
        if budget is not None:
            torch._functorch.config.activation_memory_budget = budget

    def check_model(self, module: torch.nn.Module) -> None:
        """Raises UsageError if nothing can be trained, or there is no such loss."""
        losses.check(module, self.options.loss)

    def prepare(self, subject: Subject, seed: int) -> Subject:
        """Returns `subject` in train mode, with targets if the loss needs them."""
        return losses.trainable(subject, self.options.loss, seed)

    def own(self, subject: Subject) -> Subject:
        """Returns `subject` with activation checkpointing as `options.checkpoint` says."""
        recomputing = RECOMPUTING[self.options.checkpoint]
        return replace(subject, module=recomputing(subject.module, subject.random))

    def start(self, module: torch.nn.Module) -> Start:
        """Returns copies of the trained parameters."""
        return start_of(module)

    def graphs_parts(self, mode: Mode) -> bool:
        """Whether forward and backward are captured without the optimizer."""
        return mode.graph and self.options.capture != "step"

    def forward(self, call: Step, inputs: Inputs) -> Step:
        """Returns a function that computes the loss of what `call` returns."""
        loss = losses.loss_of(self.options.loss)
        return lambda: loss(call(), inputs)

    def steps(
        self, module: torch.nn.Module, forward: Step, variant: Variant, device: Hardware, start: Any
    ) -> tuple[Step, Step, Trainer]:
        """Returns the live step, the timed step, and the trainer that makes both."""
        start = start or start_of(module)
        scales = self.options.scales(variant)
        scaler = GradScaler(device.type, start.scale) if scales else None
        made = optimizer(module.parameters(), self.options, variant.mode)
        if self.options.compile_optimizer:
            compiled_optimizer.compile_step(made)
        trained = Trainer(made, scaler, bare_call(forward), start)
        live = prepare_like(trained.step, forward)
        if not self.options.captures_step(variant.mode):
            return live, live, trained
        # The loss is detached: its autograd graph would keep nodes of the capture's stream, for
        # which every live step would then wait.
        replay = device.capture(prepare_like(lambda: trained.step().detach(), forward))
        trained.note_capture()
        return live, replay, trained


PHASES: dict[str, Callable[[Any], Phase]] = {"inference": Phase, "train": TrainingPhase}
"""Maps the name of a phase to its class. Each class takes its own kind of options, whose settings
are in `bench.settings`."""


def phase_of(options: PhaseOptions) -> Phase:
    """Returns the phase that has these `options`."""
    if isinstance(options, Inference) and options.sizes_json:
        return MixedPhase(options)
    return PHASES[options.phase](options)
