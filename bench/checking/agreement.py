"""What a user can judge of an error: cosine, and whether the largest number stays in its place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.nn.functional import cosine_similarity

from modescope.bench.model.outputs import Outputs, difference

LEAST_CLASSES = 10
"""A table with fewer columns is not taken for logits."""


@dataclass(frozen=True)
class Agreement:
    """How outputs agree with their references, in the worst output (None: nothing to compare)."""

    cosine: float | None = None
    top1: float | None = None  # of those that look like logits


def agree(pairs: Iterable[tuple[Outputs, Outputs]]) -> Agreement:
    """Returns how outputs agree with their references, in float64 both; one pair for each input.

    The cosine leaves out infinities and nan that are where the reference has them: they have no
    direction. It is None if an output has others.
    """
    cosines, shares = list[float](), list[float]()
    for outputs, references in pairs:
        for place, reference in references.items():
            mine = outputs.get(place)
            if mine is None or mine.shape != reference.shape:
                continue
            kept = reference.isfinite() | (difference(mine, reference) != 0)
            flat, other = mine[kept], reference[kept]
            if not flat.numel():
                continue
            cosines.append(_cosine(flat, other))
            if looks_like_logits(place, reference):
                same = mine.argmax(-1) == reference.argmax(-1)
                shares.append(float(same.double().mean()))
    known = all(map(math.isfinite, cosines))
    return Agreement(min(cosines, default=None) if known else None, min(shares, default=None))


def _cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    if torch.equal(one, other):
        return 1.0  # of zeros, too, which have no direction
    # torch takes norms for 1e-8 or more
    one, other = (numbers / (numbers.abs().max() or 1.0) for numbers in (one, other))
    return float(cosine_similarity(one, other, dim=0))


def looks_like_logits(place: str, output: torch.Tensor) -> bool:
    """Whether the output at `place` may have a number for each of several classes in its rows."""
    named = "logits" in place and output.dim() > 0
    return named or (output.dim() == 2 and output.shape[-1] >= LEAST_CLASSES)
