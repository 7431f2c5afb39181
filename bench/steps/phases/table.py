"""The table of phases: `PHASES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modescope.bench.records.cases import PhaseOptions
from modescope.bench.steps.phase_interface import Phase
from modescope.bench.steps.phases.inference import InferencePhase
from modescope.bench.steps.training.phase import TrainingPhase

PHASES: dict[str, Callable[[Any], Phase]] = {"inference": InferencePhase, "train": TrainingPhase}
"""By name; each takes its own kind of options.

`bench.settings` has their settings.
"""


def phase_of(options: PhaseOptions) -> Phase:
    """The phase that these options belong to."""
    return PHASES[options.phase](options)
