"""The phases: inference, training, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from modescope.bench.devices.devices import Hardware, Step, alone, prepared_as
from modescope.bench.records.cases import (
    OPTIMIZERS,
    Inference,
    Mode,
    PhaseOptions,
    Training,
    Variant,
)
from modescope.bench.steps.phase_interface import Phase
from modescope.bench.steps.phases.mixed_calls import MixedCheck, mixed, prepare_mixed_check
from modescope.bench.steps.phases.output_check import OutputCheck, prepare_check
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.steps.training import losses, training_check
from modescope.bench.steps.training.trainer import RECOMPUTING, Start, Trainer, start_of, trainer


@dataclass(frozen=True)
class InferencePhase(Phase):
    """A step is a forward, or a pass over forwards of different sizes; outputs are checked."""

    options: Inference

    @property
    def no_dispatch(self) -> str | None:
        """Of a pass over sizes."""
        return (
            self.options.sizes_json and "calls of different sizes have no empty batch of their own"
        )

    def prepare(self, subject: Subject, seed: int) -> Subject:
        """With the inputs of all sizes, if they vary."""
        return mixed(subject, self.options, seed) if self.options.sizes_json else subject

    def check(self, subject: Subject, device: Hardware, seed: int) -> OutputCheck | MixedCheck:
        """Outputs, and what is written to buffers."""
        prepare = prepare_mixed_check if subject.order else prepare_check
        return prepare(subject, device, seed)


ONE_CALL = InferencePhase(Inference())


@dataclass(frozen=True)
class TrainingPhase(Phase):
    """A step drops gradients, computes the loss and its gradients, and updates parameters."""

    options: Training

    trains = True

    @property
    def no_dispatch(self) -> str:
        """Of the optimizer."""
        return (
            "in training the optimizer and the gradients of weights have work on an empty batch too"
        )

    def apply_settings(self) -> None:
        """Sets the compiler's budget for activations."""
        budget = self.options.activation_memory_budget
        if budget is not None:
            torch._functorch.config.activation_memory_budget = budget

    def check_model(self, module: torch.nn.Module) -> None:
        """Raises UsageError where nothing can be trained, or there is no such loss."""
        losses.check(module, self.options.loss)

    def prepare(self, subject: Subject, seed: int) -> Subject:
        """In train mode, with targets."""
        return losses.trainable(subject, self.options.loss, seed)

    def check(self, subject: Subject, device: Hardware, seed: int) -> training_check.TrainingCheck:
        """Losses, gradients and updates of a float64 copy, trained without scaler and capture."""
        options = self.options
        plain = Training(options.optimizer, lr=options.lr, loss=options.loss, scaler=False)
        follows_size = OPTIMIZERS[options.optimizer].follows_size
        return training_check.prepare(subject, TrainingPhase(plain), follows_size, device, seed)

    def own(self, subject: Subject) -> Subject:
        """With activation checkpointing as the options say."""
        recomputing = RECOMPUTING[self.options.checkpoint]
        return replace(subject, module=recomputing(subject.module, subject.random))

    def start(self, module: torch.nn.Module) -> Start:
        """Copies of the trained parameters."""
        return start_of(module)

    def graphs_parts(self, mode: Mode) -> bool:
        """True where the optimizer stays outside the graphs."""
        return mode.graph and self.options.capture != "step"

    def forward(self, call: Step, inputs: Inputs) -> Step:
        """The loss of the model's output."""
        loss = losses.loss_of(self.options.loss)
        return lambda: loss(call(), inputs)

    def steps(
        self, module: torch.nn.Module, forward: Step, variant: Variant, device: Hardware, start: Any
    ) -> tuple[Step, Step, Trainer]:
        """Steps of a trainer."""
        trained = trainer(module, alone(forward), self.options, variant, device.type, start)
        live = prepared_as(trained.step, forward)
        if not self.options.captures_step(variant.mode):
            return live, live, trained
        # The loss is detached: its autograd graph would keep nodes of the capture's stream, for
        # which every live step would then wait.
        replay = device.capture(prepared_as(lambda: trained.step().detach(), forward))
        trained.note_capture()
        return live, replay, trained


PHASES: dict[str, Callable[[Any], Phase]] = {"inference": InferencePhase, "train": TrainingPhase}
"""By name; each takes its own kind of options.

`bench.settings` has their settings.
"""


def phase_of(options: PhaseOptions) -> Phase:
    """The phase that these options belong to."""
    return PHASES[options.phase](options)
