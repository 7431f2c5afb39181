"""Command-line settings of each phase, without torch; `bench.steps.phases` implements them."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.cases import Inference, PhaseOptions, Training
from modescope.bench.sweep.settings import training_refusals
from modescope.bench.sweep.settings.rules import CaseRule, VariantRule


@dataclass(frozen=True)
class PhaseSettings:
    """Settings of a phase, and the combinations that it refuses."""

    options: type[PhaseOptions]
    natural_grad: str  # what mode.grad=natural means
    synonyms: str = ""  # other common names of the phase
    section: str | None = None  # prefix of the keys that set its options, as in train.lr
    model_keys: tuple[str, ...] = ()  # options that are set by keys of the model, such as loss
    imports_compiler: bool = False  # whether its steps do so in eager, as torch's optimizers do
    other_phases: str = ""  # why its keys have no effect in other phases, after `phase=<name>`
    variant_rules: tuple[VariantRule, ...] = ()
    case_rules: tuple[CaseRule, ...] = ()


PHASE_SETTINGS = {
    "inference": PhaseSettings(Inference, "inference_mode", "infer eval test forward"),
    "train": PhaseSettings(
        Training,
        natural_grad="enabled",
        synonyms="training",
        section="train",
        model_keys=("loss",),
        imports_compiler=True,
        other_phases="trains nothing",
        variant_rules=training_refusals.VARIANT_RULES,
        case_rules=training_refusals.CASE_RULES,
    ),
}
