"""A variant's step, ready to call, and the state that steps change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from modescope.bench.devices.devices import Step
from modescope.bench.steps.subject import Subject, state_kept

StepPart = tuple[str, Callable[[Any], Any]]
"""A part of a step: the column of its time, and a function of the previous part's result."""


class State:
    """What steps change besides the module's buffers; this base class is for steps without any."""

    start: Any = None  # what the first step starts from, as returned by `Phase.start`

    def restore(self) -> None:
        """Restores `start` in place, so that the next step is the first again."""

    def settle(self, step: Step) -> None:
        """Adjusts `start` by calling `step`, so that all timed steps do the same work."""

    def tensors(self) -> list[torch.Tensor]:
        """Tensors that live from step to step, without parameters."""
        return []

    def written(self, step: Step) -> list[torch.Tensor]:
        """Existing tensors that a step overwrites; may call `step` to find out."""
        return []

    def parts(self) -> tuple[StepPart, ...]:
        """The parts of a step in order; none where they are not timed."""
        return ()

    def parts_note(self) -> str | None:
        """A note on the times of `parts`."""
        return None

    def sizes(self) -> dict[str, Any]:
        """Bytes by column of `bench.records.columns.Memory`."""
        return {}

    def leave_device(self) -> None:
        """Moves the harness's own copies out of the device's memory."""

    def copies_bytes(self) -> int:
        """Bytes of the harness's own copies, where they are in the same memory as the step."""
        return 0


@dataclass(frozen=True)
class Built:
    """A variant ready to run."""

    subject: Subject  # its own weights and inputs
    target: torch.nn.Module  # the module that a step calls, compiled or not
    live: Step  # a step that calls the target, even if `step` is a replay
    step: Step  # what is timed: `live`, or a replay of it
    state: State = field(default_factory=State)
    graphed: bool = False  # forward and backward are one CUDA graph each

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Undoes what steps change: buffers and state."""
        with state_kept(self.subject.module):
            try:
                yield
            finally:
                self.state.restore()

    def settle(self) -> None:
        """Adjusts what steps start from (`State.settle`), and restores it."""
        with self.kept():
            self.state.settle(self.step)

    def tensors(self) -> list[torch.Tensor]:
        """Weights, buffers, inputs, and the state's tensors."""
        return [*self.subject.tensors(), *self.state.tensors()]
