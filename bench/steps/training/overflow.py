"""Checks that GradScaler skips a step whose gradients overflow, and no other step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modescope.bench.steps.built_step import Built
from modescope.bench.steps.subject import Inputs
from modescope.bench.steps.training.trainer import Trainer, trainer_of

MISSED = (
    "GradScaler did not skip a step whose gradients were made to overflow, or skipped another one: "
    "the trained state {moved} in the step that overflows, the loss scale went from {scale:g} to "
    "{lowered:g}, and the trained state {went_on} in the next step"
)

WORDS = {True: "changed", False: "did not change"}


@dataclass(frozen=True)
class Overflow:
    """The effect of an infinity in the first of two batches."""

    skipped: bool | None  # whether only that step was skipped; None: unknown
    reason: str | None  # what happened instead


def plant(built: Built) -> Overflow:
    """Trains on a batch with an infinity, then on one without; all state is restored on return.

    The infinity is in a target, or else an input, which a captured graph reads too. The effect is
    unknown where the loss removes it (a clamp), or where no step changes anything (a tiny lr).
    """
    trainer = trainer_of(built)
    assert trainer.scaler is not None
    own = built.subject.inputs.copied()
    with built.kept():
        trainer.restore()
        before, scale = _trained(trainer), trainer.scaler.get_scale()
        _step(built, own)
        usual = _trained(trainer)
        trainer.restore()
        _step(built, _overflowing(own))
        overflowed = not all(bool(each.isfinite().all()) for each in trainer.gradients())
        skipped, lowered = _trained(trainer), trainer.scaler.get_scale()
        _step(built, own)
        after = _trained(trainer)
    if not (overflowed and _differ(before, usual)):
        return Overflow(None, None)
    moved, went_on = _differ(before, skipped), _differ(skipped, after)
    if not moved and lowered < scale and went_on:
        return Overflow(True, None)
    words = {"moved": WORDS[moved], "went_on": WORDS[went_on]}
    return Overflow(False, MISSED.format(scale=scale, lowered=lowered, **words))


def _overflowing(inputs: Inputs) -> Inputs:
    batch = inputs.copied()
    floating = [each for each in batch.tensors() if each.is_floating_point() and each.numel()]
    for tensor in floating[-1:]:
        tensor[(0,) * tensor.dim()] = torch.inf
    return batch


def _step(built: Built, batch: Inputs) -> None:
    built.subject.inputs.assign(batch)
    built.step()


def _trained(trainer: Trainer) -> list[torch.Tensor]:
    return [each.detach().clone() for each in (*trainer.trained, *trainer.tensors())]


def _differ(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return any(not torch.equal(one, other) for one, other in zip(some, others, strict=True))
