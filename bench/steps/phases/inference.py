"""The inference phase: a step calls the model in `eval()`."""

from __future__ import annotations

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Inference
from modescope.bench.steps.correctness import output_check
from modescope.bench.steps.phase_interface import Phase
from modescope.bench.steps.subject import Subject


class InferencePhase(Phase):
    """A step is a forward; its outputs are checked."""

    def check(self, subject: Subject, device: Hardware, seed: int) -> output_check.OutputCheck:
        """Outputs, and what is written to buffers."""
        return output_check.prepare(subject, device, seed)


ONE_CALL = InferencePhase(Inference())
