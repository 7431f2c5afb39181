"""Does GradScaler skip a step whose gradients overflow, and that one alone?"""

from __future__ import annotations

import torch

from bench.modes import Built
from bench.subject import Inputs

MISSED = (
    "GradScaler let a step through whose gradients had been made to overflow, or stopped one that "
    "had not: parameters {moved} with the overflow, the loss scale went from {scale:g} to "
    "{lowered:g}, and parameters {went_on} with the next step"
)


def missed(built: Built) -> str | None:
    """What went wrong, as a sentence, when an infinity was planted in one batch of two.

    None where the step was skipped, the scale lowered and the next step taken. The infinity goes
    into the inputs, which a captured graph reads too. All is as before after it.
    """
    trainer = built.trainer
    assert trainer is not None
    assert trainer.scaler is not None
    own = built.subject.inputs.map(torch.clone)
    with built.kept():
        trainer.restore()
        before, scale = _weights(built), trainer.scaler.get_scale()
        _step(built, _overflowing(own))
        skipped, lowered = _weights(built), trainer.scaler.get_scale()
        _step(built, own)
        after = _weights(built)
    moved, went_on = _differ(before, skipped), _differ(skipped, after)
    if not moved and lowered < scale and went_on:
        return None
    words = {True: "moved", False: "stayed"}
    return MISSED.format(moved=words[moved], scale=scale, lowered=lowered, went_on=words[went_on])


def can_be_planted(inputs: Inputs) -> bool:
    """Whether a batch has a place for an infinity."""
    return any(tensor.is_floating_point() for tensor in inputs.tensors())


def _overflowing(inputs: Inputs) -> Inputs:
    planted = inputs.map(torch.clone)
    place = next(tensor for tensor in planted.tensors() if tensor.is_floating_point())
    place.view(-1)[0] = torch.inf
    return planted


def _step(built: Built, batch: Inputs) -> None:
    with torch.no_grad():
        built.subject.inputs.assign(batch)
    built.step()


def _weights(built: Built) -> list[torch.Tensor]:
    assert built.trainer is not None
    return [parameter.detach().clone() for parameter in built.trainer.trained]


def _differ(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return any(not torch.equal(one, other) for one, other in zip(some, others, strict=True))
