"""What a user can judge of an error: cosine, and whether the largest number stays in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import cosine_similarity

from modescope.bench.model.outputs import Outputs

LEAST_CLASSES = 10
"""A table with fewer columns is not taken for logits."""


@dataclass(frozen=True)
class Agreement:
    """How outputs agree with their references, in the worst output (None: nothing to compare)."""

    cosine: float | None = None
    top1: float | None = None  # of those that look like logits


def agree(pairs: Iterable[tuple[Outputs, Outputs]]) -> Agreement:
    """Returns how outputs agree with their references, in float64 both; one pair for each input."""
    both = list(_both(pairs))
    return Agreement(
        min((_cosine(mine, reference) for _, mine, reference in both), default=None),
        min(
            (
                float((mine.argmax(-1) == reference.argmax(-1)).double().mean())
                for place, mine, reference in both
                if looks_like_logits(place, reference)
            ),
            default=None,
        ),
    )


def _both(
    pairs: Iterable[tuple[Outputs, Outputs]],
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for outputs, references in pairs:
        for place, reference in references.items():
            mine = outputs.get(place)
            if mine is not None and mine.shape == reference.shape and reference.numel():
                yield place, mine, reference


def _cosine(mine: torch.Tensor, reference: torch.Tensor) -> float:
    if torch.equal(mine, reference):  # of zeros, too, which have no direction
        return 1.0
    return float(cosine_similarity(mine.flatten(), reference.flatten(), dim=0))


def looks_like_logits(place: str, output: torch.Tensor) -> bool:
    """Whether the output at `place` may have a number for each of several classes in its rows."""
    named = "logits" in place and output.dim() > 0
    return named or (output.dim() == 2 and output.shape[-1] >= LEAST_CLASSES)
