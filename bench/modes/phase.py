"""The interface of a phase, whose defaults are inference; `bench.modes.phases` holds all phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.model.subject import Inputs, State, Subject
from modescope.bench.records.cases import Mode, PhaseOptions, Variant


@dataclass(frozen=True)
class Phase:
    """How a model is prepared and called in steps.

    The default is inference: a step is one call. How a phase is checked is in
    `bench.checking.prepare`.
    """

    options: PhaseOptions

    trains: ClassVar[bool] = False
    """Whether steps call the model in `train()`."""

    no_dispatch: ClassVar[str | None] = None
    """Why an empty batch cannot show dispatch in this phase; None if it can."""

    def apply_settings(self) -> None:
        """Sets torch's global settings for this phase."""

    def check_model(self, module: torch.nn.Module) -> None:
        """Raises UsageError if the model cannot be measured in this phase."""

    def prepare(self, subject: Subject, seed: int) -> Subject:
        """Prepares `subject`, in `eval()`, for the phase; raises UsageError if it is unfit."""
        return subject

    def own(self, subject: Subject) -> Subject:
        """Adds to `subject` what the steps of this phase need, and returns it.

        `subject` is the copy of one variant; its module may be changed.
        """
        return subject

    def start(self, module: torch.nn.Module) -> Any:
        """Returns the state that steps of `module` start from; None if they change nothing."""

    def graphs_parts(self, mode: Mode) -> bool:
        """Whether `mode` captures forward and backward separately, instead of the whole step."""
        return False

    def forward(self, call: Step, inputs: Inputs) -> Step:
        """Returns what a step runs in the mode's contexts; `call` calls the model on `inputs`."""
        return call

    def steps(
        self, module: torch.nn.Module, forward: Step, variant: Variant, device: Hardware, start: Any
    ) -> tuple[Step, Step, State]:
        """Returns the `live`, `step` and `state` of a `Built`.

        `forward` calls the model and enters the mode's contexts itself. Steps start from `start`,
        or from the module as it is if `start` is None. If `forward` is a `Prepared` (needs untimed
        work before each call), so are the steps. If `variant` captures the step, this runs it; the
        caller restores what that changed.
        """
        return forward, device.capture(forward) if variant.mode.graph else forward, State()
