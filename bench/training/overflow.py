"""Does GradScaler skip a step whose gradients overflow, and that one alone?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bench.modes import Built
from bench.subject import Inputs
from bench.training.trainer import Trainer

MISSED = (
    "GradScaler let a step through whose gradients had been made to overflow, or stopped one that "
    "had not: what is trained {moved} with the overflow, the loss scale went from {scale:g} to "
    "{lowered:g}, and what is trained {went_on} with the next step"
)

WORDS = {True: "moved", False: "stayed"}


@dataclass(frozen=True)
class Overflow:
    """What came of an infinity in one batch of two."""

    skipped: bool | None  # that step alone; None: it cannot be told
    reason: str | None  # what happened instead


def plant(built: Built) -> Overflow:
    """Puts an infinity into a batch, and then trains on one without. All is as before after it.

    In a target, or else an input, which a captured graph reads too. It cannot be told what becomes
    of it where the loss makes nothing of it (a clamp), or no step moves anything (a tiny lr).
    """
    trainer = built.trainer
    assert trainer is not None
    assert trainer.scaler is not None
    own = built.subject.inputs.map(torch.clone)
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
    numbers = {"scale": scale, "lowered": lowered}
    return Overflow(False, MISSED.format(moved=WORDS[moved], went_on=WORDS[went_on], **numbers))


def _overflowing(inputs: Inputs) -> Inputs:
    planted = inputs.map(torch.clone)
    places = [each for each in planted.tensors() if each.is_floating_point() and each.numel()]
    for tensor in places[-1:]:
        tensor[(0,) * tensor.dim()] = torch.inf
    return planted


def _step(built: Built, batch: Inputs) -> None:
    with torch.no_grad():
        built.subject.inputs.assign(batch)
    built.step()


def _trained(trainer: Trainer) -> list[torch.Tensor]:
    return [each.detach().clone() for each in (*trainer.trained, *trainer.state())]


def _differ(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return any(not torch.equal(one, other) for one, other in zip(some, others, strict=True))
