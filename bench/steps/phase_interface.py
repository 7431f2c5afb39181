"""The interface of a phase: how a model is prepared, called in steps, and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.records.cases import Mode, PhaseOptions, Variant
from modescope.bench.steps.built_step import State
from modescope.bench.steps.check import Check
from modescope.bench.steps.subject import Inputs, Subject


@dataclass(frozen=True)
class Phase:
    """A phase together with the options of a case; by default a step is one call of the model."""

    options: PhaseOptions

    trains: ClassVar[bool] = False
    """Whether steps call the model in `train()`."""

    no_dispatch: ClassVar[str | None] = None
    """Why an empty batch cannot show dispatch in this phase; None where it can."""

    def apply_settings(self) -> None:
        """Sets torch's global settings for this phase."""

    def check_model(self, module: torch.nn.Module) -> None:
        """Raises UsageError where the model cannot be measured in this phase."""

    def prepare(self, subject: Subject, seed: int) -> Subject:
        """`subject`, in `eval()`, prepared for the phase; raises UsageError where it is unfit."""
        return subject

    def check(self, subject: Subject, device: Hardware, seed: int) -> Check:
        """Runs the reference on fresh inputs; `subject` is prepared. Every phase overrides this."""
        raise NotImplementedError

    def own(self, subject: Subject) -> Subject:
        """The variant's own copy, as its steps call it; may change the module."""
        return subject

    def start(self, module: torch.nn.Module) -> Any:
        """The state that steps of `module` start from; None where they change nothing."""

    def graphs_parts(self, mode: Mode) -> bool:
        """Whether CUDA graphs replace forward and backward instead of the whole step."""
        return False

    def forward(self, call: Step, inputs: Inputs) -> Step:
        """The function to run in the mode's contexts, given a call of the model on `inputs`."""
        return call

    def steps(
        self, module: torch.nn.Module, forward: Step, variant: Variant, device: Hardware, start: Any
    ) -> tuple[Step, Step, State]:
        """`Built.live`, `Built.step` and their state, given `forward` in its contexts.

        They start from `start`, or from the module as it is if that is None, and need before each
        call what `forward` needs (`Prepared`). The caller restores what the steps of a capture
        changed.
        """
        return forward, device.capture(forward) if variant.mode.graph else forward, State()
