"""The check of steps that train: compares losses, gradients and updates with those in float64."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from modescope.bench.checking import examination
from modescope.bench.checking.checks import (
    LEAST_SCALE,
    Check,
    Deviation,
    Limit,
    RoundingCheck,
    Seen,
    StateCheck,
    parameter,
)
from modescope.bench.checking.examination import Calls, Recipe, default_dtype
from modescope.bench.checking.reference import (
    EXACT,
    References,
    deviation,
    error_scale,
    references,
)
from modescope.bench.checking.rounding import PERTURBED_RUNS, Rounded
from modescope.bench.devices.devices import Hardware
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.outputs import Outputs, double
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phase import Phase
from modescope.bench.modes.trainer import Trainer, trained_parameters, trainer_of
from modescope.bench.records.cases import Mode, Variant
from modescope.bench.records.columns.checks import LossScaling
from modescope.bench.records.tolerances import ROUNDING_FACTOR, SCALE_FACTOR, TOLERANCE

MISSED = (
    "GradScaler did not skip a step whose gradients were made to overflow, or skipped another one"
)

STEPS = 3
"""The number of steps of a check. The first starts from the initial weights, the others from
updated ones, each on its own batch: a replay that trains on an old batch or on old weights has an
error."""

BATCH_SETS = 3
"""The largest number of sets of batches that are tried to find one on which rounding changes
little: if a ReLU's input is close to zero, rounding may switch the ReLU on or off, and all
gradients before it jump."""

CALM = 1e-2
"""If rounding changes gradients' scales by no more than this, no further batches are tried: a fault
of 2 % is clear enough."""

REFERENCE = Variant(Mode("reference", "enabled", autocast=False, compile="none", graph=False), "-")

NO_GRADIENT = "the loss has no gradient for any parameter of the model: nothing can be trained"


def skips_overflow(built: Built) -> bool | None:
    """Whether a step on a batch with an infinity is skipped, and the next, without it, is not.

    Restores all state. The infinity is in a target, or else in an input, which a captured graph
    reads too. None if the loss removes the infinity (a clamp), or if no step changes anything (a
    tiny lr).
    """
    trainer = trainer_of(built)
    assert trainer.scaler is not None
    own = built.subject.inputs.copy()
    with built.keep_state():
        trainer.restore()
        before, scale = _parameters(trainer), trainer.scaler.get_scale()
        _step(built, own)
        usual = _parameters(trainer)
        trainer.restore()
        _step(built, _overflow_inputs(own))
        overflowed = not all(bool(gradient.isfinite().all()) for gradient in trainer.gradients())
        skipped, lowered = _parameters(trainer), trainer.scaler.get_scale()
        _step(built, own)
        after = _parameters(trainer)
    if not (overflowed and _differ(before, usual)):
        return None
    return not _differ(before, skipped) and lowered < scale and _differ(skipped, after)


def _overflow_inputs(inputs: Inputs) -> Inputs:
    batch = inputs.copy()
    floating = [
        tensor for tensor in batch.tensors() if tensor.is_floating_point() and tensor.numel()
    ]
    for tensor in floating[-1:]:
        tensor[(0,) * tensor.dim()] = torch.inf
    return batch


def _step(built: Built, batch: Inputs) -> None:
    built.subject.inputs.assign(batch)
    built.step()


def _parameters(trainer: Trainer) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in (*trainer.trained, *trainer.tensors())]


def _differ(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return any(not torch.equal(tensor, other) for tensor, other in zip(some, others, strict=True))


@dataclass(frozen=True)
class TrainingTrial:
    """What checks of one model's training on different batches share; `check` makes such a check.

    `follows_size`: whether an optimizer's update is proportional to its gradient (SGD's is, AdamW's
    is not).
    """

    subject: Subject  # on the host, to leave the GPU's memory alone
    phase: Phase  # plain training: without scaler, capture and recomputing
    follows_size: bool
    device: Hardware

    def on_device(self, dtype: torch.dtype | None) -> Subject:
        """Returns a copy on the device with floats of `dtype`; None keeps their own dtypes."""
        return self.subject.cast(dtype, every=True).to(self.device.torch_device)

    def build(self, dtype: torch.dtype | None) -> Built:
        """Builds steps of the copy that `on_device` makes."""
        return modes.build(self.on_device(dtype), REFERENCE, True, self.device, self.phase)

    def references(self, outcome: Outputs) -> References:
        """Makes References of `outcome`, the results of a copy in the reference's dtype."""
        return references(outcome, self.subject.module, self.follows_size, self.device.torch_device)

    def check(self, seed: int) -> TrainingCheck:
        """Trains copies on batches drawn from `seed`; returns a check on these batches."""
        built = self.build(None)
        with keep_state(built.subject.module):
            records = trainer_of(built).forward().requires_grad
        if records:
            inputs, found, seen = examination.examine(self._recipe(), self.device, seed, STEPS)
            if any(place.startswith("gradient") for place in found):
                return TrainingCheck(inputs, self.references(found), seed, None, seen, self)
        return TrainingCheck((), {}, seed, NO_GRADIENT, Seen(), self)

    def _recipe(self) -> Recipe[Outputs]:
        def copy(dtype: torch.dtype | None) -> Calls[Outputs]:
            built = self.build(dtype)
            return Calls(built.subject.module, lambda inputs, seed: _outcome(built, inputs, seed))

        def differ(results: Outputs, usual: Outputs) -> bool:
            first = "loss of step 1"  # later ones have other weights
            return not torch.equal(results[first], usual[first])

        return Recipe(
            self.subject,
            copy,
            error=lambda results, expected: (
                deviation(results, self.references(expected), EXACT).error
            ),
            finite=lambda results: all(
                bool(result.isfinite().all()) for result in results.values()
            ),
            differ=differ,
            jumps=True,  # where a ReLU's input is close to zero
        )


@dataclass(frozen=True)
class TrainingCheck(Check):
    """A batch for each step, and the reference losses, gradients and updates for them."""

    inputs: tuple[Inputs, ...]
    references: References  # kept on the host, and compared one at a time on the device
    seed: int
    unfit: str | None
    seen: Seen
    trial: TrainingTrial

    def examine(self, built: Built, variant: Variant) -> Deviation:
        """Returns the largest errors of a loss, gradient or update; restores all state."""
        outcome = _outcome(built, self.inputs, self.seed)
        return deviation(outcome, self.references, error_scale(variant))

    def results(self, built: Built) -> Outputs:
        """Returns the loss and the gradients of the first step."""
        trainer = trainer_of(built)
        with built.keep_state():
            trainer.restore()
            loss = _on_host(built.step())
            return {"loss": loss, **_gradients(built)}

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        """Returns the check on the batches for which rounding changes the scale of gradients least.

        None if the reference is not in float64.
        """
        if not self.seen.is_exact:
            return None
        least: tuple[TrainingCheck, Limit] | None = None
        for number in range(BATCH_SETS):
            check = self.trial.check(self.seed + number * STEPS) if number else self
            limit = check.perturb(variant)
            if least is None or limit.scale < least[1].scale:
                least = check, limit
            if limit.scale <= CALM:
                break
        assert least is not None
        return RoundingCheck(*least, self.trial.on_device(None))

    def perturb(self, variant: Variant) -> Limit:
        """Returns the largest errors that rounding may cause, found in perturbed correct steps."""
        with default_dtype(torch.float64):
            built = self.trial.build(torch.float64)
            outcomes = [
                _outcome(
                    built,
                    self.inputs,
                    self.seed,
                    Rounded(variant.dtype, self.trial.device.torch_device, seed),
                )
                for seed in range(PERTURBED_RUNS)
            ]
        scale, tolerance = error_scale(variant), TOLERANCE[variant.dtype]
        found = [deviation(outcome, self.references, scale) for outcome in outcomes]
        scales: dict[str, list[float]] = defaultdict(list)
        for place, error in (item for run in found for item in run.scales.items()):
            scales[parameter(place)].append(error)
        squares = (error**2 for errors in scales.values() for error in errors)
        usual = max(LEAST_SCALE, tolerance / 10, SCALE_FACTOR * math.sqrt(fmean(squares)))
        largest = {name: ROUNDING_FACTOR * max(errors) for name, errors in scales.items()}
        return Limit(  # no less than what rounding of the weights does to an update
            max(tolerance, ROUNDING_FACTOR * max(run.error for run in found)),
            usual,
            {name: own for name, own in largest.items() if own > usual},
        )

    def examine_state(self, built: Built) -> StateCheck:
        """Checks that a loss scaler skips the step whose gradients overflow, and no other."""
        trainer = trainer_of(built)
        if trainer.scaler is None:
            return StateCheck()
        skips = skips_overflow(built)
        scaling = LossScaling(trainer.start.scale, skips)
        return StateCheck(MISSED if skips is False else None, scaling)


def _outcome(
    built: Built,
    inputs: Sequence[Inputs],
    seed: int,
    within: AbstractContextManager[Any] | None = None,
) -> Outputs:
    """Returns losses, gradients and updates, as float64 copies, of one step for each of `inputs`.

    Each step runs in the context `within`, if given. Restores state and inputs.
    """
    trainer = trainer_of(built)
    own = built.subject.inputs.copy()
    outcome: Outputs = {}
    with built.keep_state():
        trainer.restore()
        named = trained_parameters(built.subject.module)
        before = {name: _on_host(parameter) for name, parameter in named.items()}
        for number, fresh in enumerate(inputs, 1):
            built.subject.inputs.assign(fresh)
            torch.manual_seed(seed)
            with within or nullcontext():
                loss = built.step()
            outcome[f"loss of step {number}"] = _on_host(loss)
            gradients = _gradients(built)
            outcome |= {
                f"{name} in step {number}": gradient for name, gradient in gradients.items()
            }
        for name, parameter in named.items():
            outcome[f"update of {name}"] = _on_host(parameter) - before[name]
    built.subject.inputs.assign(own)
    return outcome


def _gradients(built: Built) -> Outputs:
    return {
        f"gradient of {name}": _on_host(parameter.grad.to_dense())
        for name, parameter in trained_parameters(built.subject.module).items()
        if parameter.grad is not None
    }


def _on_host(tensor: object) -> torch.Tensor:
    assert isinstance(tensor, torch.Tensor)
    return double(tensor).to("cpu")
