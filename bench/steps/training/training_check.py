"""The check of steps that train: losses, gradients and updates against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Mode, Variant
from modescope.bench.records.tolerances import eager_is_sane, jump
from modescope.bench.steps import modes
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.check import Check, Deviation, StateCheck
from modescope.bench.steps.correctness.output_check import REPEATABLE, default_dtype, worst
from modescope.bench.steps.model_and_inputs import Inputs, Subject, redraw, state_kept
from modescope.bench.steps.outputs import Outputs, double
from modescope.bench.steps.phase_interface import Phase
from modescope.bench.steps.training import overflow
from modescope.bench.steps.training.checkpointing import trained
from modescope.bench.steps.training.reference import (
    EXACT,
    References,
    error_scale,
    errors,
    references,
)
from modescope.bench.steps.training.trainer import trainer_of

STEPS = 3
"""The first starts from the initial weights, the others from updated ones, each on its own batch: a
replay that trains on an old batch or on old weights has an error."""

OTHER_BATCHES = 2
"""How often an error that a jump of gradients can explain is examined on other batches: where jumps
are rare, one of two correct steps may have one and the other none."""

REFERENCE = Variant(Mode("reference", "enabled", autocast=False, compile="none", graph=False), "-")

NO_GRADIENT = "the loss has no gradient for any parameter of the model: nothing can be trained"
STOCHASTIC = (
    "the model draws random numbers in forward, so what it learns cannot be checked; build it "
    "without them (dropout=0)"
)


@dataclass(frozen=True)
class TrainingCheck(Check):
    """A batch for each step, and the losses, gradients and updates of float64."""

    inputs: tuple[Inputs, ...]
    references: References  # on the host, as all that is compared, to leave the GPU's memory alone
    seed: int
    unfit: str | None
    again: Callable[[int], TrainingCheck]  # the same with other batches, drawn from a seed

    def examine(self, built: Built, variant: Variant, limit: float = math.inf) -> Deviation:
        """The largest error of a loss, gradient or update; all state is restored on return.

        One above `limit` that a jump of gradients can explain (`tolerances.RELU_JUMP`) is examined
        on other batches too, and the smallest counts: a fault shows on each.
        """
        smallest = _deviation(self, built, variant)
        for number in range(1, 1 + OTHER_BATCHES):
            if not limit < smallest.error <= jump(variant.dtype):
                break
            other = _deviation(self.again(self.seed + number * STEPS), built, variant)
            smallest = min(smallest, other, key=lambda each: each.error)
        return smallest

    def eager_is_sane(self, error: float, dtype: str) -> bool:
        """As `Check.eager_is_sane`, with the larger limit of gradients."""
        return eager_is_sane(error, dtype, trains=True)

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
    inputs = tuple(redraw(subject.inputs, seed + 1 + step) for step in range(STEPS))
    with default_dtype(torch.float64):
        own = subject.cast(torch.float64)
        built = modes.build(own, REFERENCE, True, device, phase)
        with state_kept(own.module):
            records = trainer_of(built).forward().requires_grad
        outcomes = [_outcome(built, inputs, each) for each in (seed, seed + 1)] if records else []
    kept = subject.cast(torch.float32).to(torch.device("cpu"))

    def again(seed: int) -> TrainingCheck:
        fresh = kept.cast(torch.float32).to(device.torch_device)
        return prepare(fresh, phase, follows_size, device, seed)

    if not (outcomes and any(place.startswith("gradient") for place in outcomes[0])):
        return TrainingCheck(inputs, {}, seed, NO_GRADIENT, again)
    expected = references(outcomes[0], own.module, follows_size)
    stochastic = worst(errors(outcomes[1], expected, EXACT)).error > REPEATABLE
    return TrainingCheck(inputs, expected, seed, STOCHASTIC if stochastic else None, again)


def _deviation(check: TrainingCheck, built: Built, variant: Variant) -> Deviation:
    outcome = _outcome(built, check.inputs, check.seed)
    return worst(errors(outcome, check.references, error_scale(variant)))


def _outcome(built: Built, inputs: tuple[Inputs, ...], seed: int) -> Outputs:
    """Losses, gradients and updates by name, as float64 copies."""
    trainer = trainer_of(built)
    own = built.subject.inputs.map(torch.clone)
    outcome: Outputs = {}
    with built.kept():
        trainer.restore()
        named = trained(built.subject.module)
        before = {name: _on_host(parameter) for name, parameter in named.items()}
        for number, fresh in enumerate(inputs, 1):
            built.subject.inputs.assign(fresh)
            torch.manual_seed(seed)
            outcome[f"loss of step {number}"] = _on_host(built.step())
            for name, parameter in named.items():
                if parameter.grad is not None:
                    place = f"gradient of {name} in step {number}"
                    outcome[place] = _on_host(parameter.grad.to_dense())
        for name, parameter in named.items():
            outcome[f"update of {name}"] = _on_host(parameter) - before[name]
    built.subject.inputs.assign(own)
    return outcome


def _on_host(tensor: object) -> torch.Tensor:
    assert isinstance(tensor, torch.Tensor)
    return double(tensor.detach().to("cpu"))
