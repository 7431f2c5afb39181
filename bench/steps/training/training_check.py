"""The check of steps that train: losses, gradients and updates against float64."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Mode, Variant
from modescope.bench.records.tolerances import ROUNDING_FACTOR, SCALE_FACTOR, TOLERANCE
from modescope.bench.steps import modes
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.check import (
    Check,
    Deviation,
    Limit,
    RoundingCheck,
    StateCheck,
    accepted_error,
    parameter,
)
from modescope.bench.steps.correctness.output_check import REPEATABLE, default_dtype
from modescope.bench.steps.correctness.rounding import Rounded
from modescope.bench.steps.outputs import Outputs, double
from modescope.bench.steps.phase_interface import Phase
from modescope.bench.steps.subject import Inputs, Subject, redraw, state_kept
from modescope.bench.steps.training import overflow
from modescope.bench.steps.training.checkpointing import trained
from modescope.bench.steps.training.reference import (
    EXACT,
    References,
    deviation,
    error_scale,
    references,
)
from modescope.bench.steps.training.trainer import trainer_of

STEPS = 3
"""The first starts from the initial weights, the others from updated ones, each on its own batch: a
replay that trains on an old batch or on old weights has an error."""

RARE_RUNS = 24
"""First steps from other seeds, made where two runs agree although they drew random numbers. None
shows a layer that is skipped with a probability of 5 % in 3 of 10 such models; none shows four such
layers in 1 of 150."""

PERTURBED_RUNS = 4

BATCH_SETS = 3
"""How many sets of batches are tried for one on which rounding changes little: where a ReLU's input
is close to zero, rounding may switch it on or off, and all gradients before it jump."""

CALM = 1e-2
"""Where no more of a gradient's scale may be due to rounding, a fault of 2 % is clear enough."""

LEAST_SCALE = 1e-4
"""Smaller errors of a gradient's scale are accepted everywhere."""

REFERENCE = Variant(Mode("reference", "enabled", autocast=False, compile="none", graph=False), "-")

NO_GRADIENT = "the loss has no gradient for any parameter of the model: nothing can be trained"


@dataclass(frozen=True)
class Recipe:
    """All that a check is made of, for any batches."""

    kept: Subject  # in fp32 on the host, to leave the GPU's memory alone
    phase: Phase  # plain training: without scaler, capture and recomputing
    follows_size: bool
    device: Hardware

    def subject(self) -> Subject:
        """A copy on the device."""
        return self.kept.cast(torch.float32).to(self.device.torch_device)

    def reference(self, subject: Subject) -> Built:
        """Steps of a float64 copy of `subject`."""
        own = subject.cast(torch.float64)
        return modes.build(own, REFERENCE, True, self.device, self.phase)

    def check(self, subject: Subject, seed: int) -> TrainingCheck:
        """Trains a float64 copy of `subject` on batches drawn from `seed`."""
        inputs = tuple(redraw(subject.inputs, seed + 1 + step) for step in range(STEPS))
        with default_dtype(torch.float64):
            built = self.reference(subject)
            with state_kept(built.subject.module):
                records = trainer_of(built).forward().requires_grad
            outcomes = [_outcome(built, inputs, each) for each in (seed, seed + 1) if records]
        if not (outcomes and any(place.startswith("gradient") for place in outcomes[0])):
            return TrainingCheck(inputs, {}, seed, NO_GRADIENT, False, self)
        expected = references(outcomes[0], built.subject.module, self.follows_size)
        random = deviation(outcomes[1], expected, EXACT).error > REPEATABLE
        if not random:
            with default_dtype(torch.float64):
                drew = _drew_since(seed + 1, self.device)
                random = drew and _rarely_random(built, inputs[0], expected, seed + 2)
        return TrainingCheck(inputs, expected, seed, None, random, self)


@dataclass(frozen=True)
class TrainingCheck(Check):
    """A batch for each step, and the losses, gradients and updates of float64."""

    inputs: tuple[Inputs, ...]
    references: References  # on the host, as all that is compared, to leave the GPU's memory alone
    seed: int
    unfit: str | None
    random: bool
    recipe: Recipe

    def examine(self, built: Built, variant: Variant) -> Deviation:
        """The largest errors of a loss, gradient or update; all state is restored on return."""
        outcome = _outcome(built, self.inputs, self.seed)
        return deviation(outcome, self.references, error_scale(variant))

    def results(self, built: Built) -> Outputs:
        """The loss and the gradients of the first step."""
        trainer = trainer_of(built)
        with built.kept():
            trainer.restore()
            loss = _on_host(built.step())
            return {"loss": loss, **_gradients(built)}

    def limit(self, eager: Deviation, variant: Variant) -> Limit:
        """As `Check.limit`."""
        scale = max(LEAST_SCALE, accepted_error(eager.scale, variant.dtype))
        return Limit(accepted_error(eager.error, variant.dtype), scale)

    def rounding(self, variant: Variant) -> RoundingCheck:
        """With the set of batches on which rounding changes the factor of gradients least."""
        subject, least = self.recipe.subject(), None
        for number in range(BATCH_SETS):
            check = self.recipe.check(subject, self.seed + number * STEPS) if number else self
            limit = check.perturbed(subject, variant)
            if least is None or limit.scale < least.limit.scale:
                least = RoundingCheck(check, limit, subject)
            if limit.scale <= CALM:
                break
        assert least is not None
        return least

    def perturbed(self, subject: Subject, variant: Variant) -> Limit:
        """What a correct step may be off by, from perturbed float64 runs of `subject`."""
        with default_dtype(torch.float64):
            built = self.recipe.reference(subject)
            outcomes = [
                _outcome(
                    built,
                    self.inputs,
                    self.seed,
                    Rounded(variant.dtype, self.recipe.device.torch_device, seed),
                )
                for seed in range(PERTURBED_RUNS)
            ]
        scale, tolerance = error_scale(variant), TOLERANCE[variant.dtype]
        found = [deviation(outcome, self.references, scale) for outcome in outcomes]
        scales: dict[str, list[float]] = defaultdict(list)
        for place, error in (item for each in found for item in each.scales.items()):
            scales[parameter(place)].append(error)
        squares = (error**2 for errors in scales.values() for error in errors)
        usual = max(LEAST_SCALE, tolerance / 10, SCALE_FACTOR * math.sqrt(fmean(squares)))
        largest = {name: ROUNDING_FACTOR * max(errors) for name, errors in scales.items()}
        return Limit(  # no less than what rounding of the weights does to an update
            max(tolerance, ROUNDING_FACTOR * max(each.error for each in found)),
            usual,
            {name: own for name, own in largest.items() if own > usual},
        )

    def examine_state(self, built: Built) -> StateCheck:
        """Whether a scaler skips the step that overflows, and no other."""
        trainer = trainer_of(built)
        if trainer.scaler is None:
            return StateCheck()
        planted = overflow.plant(built)
        columns = {"loss_scale": trainer.start.scale, "overflow_skipped": planted.skipped}
        return StateCheck(planted.reason, columns)


def prepare(
    subject: Subject, phase: Phase, follows_size: bool, device: Hardware, seed: int
) -> TrainingCheck:
    """Trains a float64 copy of `subject`, which includes targets, on fresh batches."""
    kept = subject.cast(torch.float32).to(torch.device("cpu"))
    return Recipe(kept, phase, follows_size, device).check(subject, seed)


def _drew_since(seed: int, device: Hardware) -> bool:
    """Whether torch's generators, last seeded with `seed`, have given numbers since; seeds them."""
    now = device.generator_states()
    torch.manual_seed(seed)
    return not all(map(torch.equal, now, device.generator_states()))


def _rarely_random(built: Built, batch: Inputs, expected: References, seed: int) -> bool:
    """Whether a first step on `batch` differs from the expected one, in any of RARE_RUNS seeds."""
    known = {place: each for place, each in expected.items() if place.endswith(" step 1")}
    for other in range(seed, seed + RARE_RUNS):
        outcome = _outcome(built, (batch,), other)
        first = {place: each for place, each in outcome.items() if place.endswith(" step 1")}
        if deviation(first, known, EXACT).error > REPEATABLE:
            return True
    return False


def _outcome(
    built: Built,
    inputs: tuple[Inputs, ...],
    seed: int,
    within: AbstractContextManager[Any] | None = None,
) -> Outputs:
    """Losses, gradients and updates by name, as float64 copies; steps are made `within`."""
    trainer = trainer_of(built)
    own = built.subject.inputs.copied()
    outcome: Outputs = {}
    with built.kept():
        trainer.restore()
        named = trained(built.subject.module)
        before = {name: _on_host(parameter) for name, parameter in named.items()}
        for number, fresh in enumerate(inputs, 1):
            built.subject.inputs.assign(fresh)
            torch.manual_seed(seed)
            with within or nullcontext():
                loss = built.step()
            outcome[f"loss of step {number}"] = _on_host(loss)
            gradients = _gradients(built)
            outcome |= {f"{name} in step {number}": each for name, each in gradients.items()}
        for name, parameter in named.items():
            outcome[f"update of {name}"] = _on_host(parameter) - before[name]
    built.subject.inputs.assign(own)
    return outcome


def _gradients(built: Built) -> Outputs:
    return {
        f"gradient of {name}": _on_host(parameter.grad.to_dense())
        for name, parameter in trained(built.subject.module).items()
        if parameter.grad is not None
    }


def _on_host(tensor: object) -> torch.Tensor:
    assert isinstance(tensor, torch.Tensor)
    return double(tensor.detach().to("cpu"))
