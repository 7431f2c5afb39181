"""Judges outputs that jump: a tiny change of an input, such as rounding, changes them by much.

Examples are the boxes whose score exceeds a threshold, masks, class numbers and the best k of many.
Float64 cannot tell whether such an output is right at a narrower precision. But rounding explains
it if float64 runs that are perturbed by rounding differ about as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import interpolate

from modescope.bench.checking.checks import CHAOS
from modescope.bench.model.outputs import Outputs, difference, relative_error
from modescope.bench.records.tolerances import ROUNDING_FACTOR, TOLERANCE, eager_is_sane


@dataclass(frozen=True)
class OutputChange:
    """How far an output is from its reference.

    `size` is the largest difference of a dimension (in rows, say), infinite if their numbers
    differ. `error` is the relative RMS error, of the sorted elements if sizes may differ.
    """

    size: float
    error: float

    def within(self, others: Sequence[OutputChange]) -> bool:
        """Whether it is at most ROUNDING_FACTOR times as large as the largest of `others`."""
        return all(
            mine <= ROUNDING_FACTOR * max(theirs)
            for mine, theirs in (
                (self.size, [change.size for change in others]),
                (self.error, [change.error for change in others]),
            )
        )


@dataclass(frozen=True)
class Jumps:
    """The outputs that jump under the rounding of `dtype`, and how far in perturbed runs."""

    dtype: str
    resized: frozenset[str]  # places whose sizes change
    changes: Mapping[str, Sequence[OutputChange]]  # by place

    def explained(self, calls: Sequence[tuple[Outputs, Outputs]]) -> frozenset[str]:
        """Returns the places in which outputs differ no more than rounding explains.

        `calls` has the outputs and the references of each call. Places are left out where outputs
        differ so little that nothing has to be explained.
        """
        return frozenset(
            place
            for place, by_rounding in self.changes.items()
            if self._explains(by_rounding, place, [(o.get(place), r[place]) for o, r in calls])
        )

    def _explains(
        self,
        by_rounding: Sequence[OutputChange],
        place: str,
        pairs: Sequence[tuple[torch.Tensor | None, torch.Tensor]],
    ) -> bool:
        known = [(output, other) for output, other in pairs if output is not None]
        if len(known) < len(pairs) or not any(_differ(*pair, self.dtype) for pair in known):
            return False
        return all(_change(*pair, place in self.resized).within(by_rounding) for pair in known)


def find(
    runs: Sequence[Sequence[Outputs]], references: Sequence[Outputs], dtype: str
) -> Jumps | None:
    """Returns which outputs of perturbed runs jump; None if none does, or if places differ.

    Each of `runs` has the outputs for the same inputs as `references`.
    """
    pairs = [pair for run in runs for pair in zip(run, references, strict=True)]
    if any(outputs.keys() != others.keys() for outputs, others in pairs):
        return None
    by_place = {
        place: [(outputs[place], others[place]) for outputs, others in pairs]
        for place in references[0]
    }
    jumping = {p: found for p, found in by_place.items() if any(_jumps(*x, dtype) for x in found)}
    resized = frozenset(
        place for place, found in jumping.items() if any(a.shape != b.shape for a, b in found)
    )
    changes = {
        place: [_change(*pair, place in resized) for pair in found]
        for place, found in jumping.items()
    }
    return Jumps(dtype, resized, changes) if changes else None


def _jumps(output: torch.Tensor, reference: torch.Tensor, dtype: str) -> bool:
    """Whether rounding changes an output by more than it changes a smooth function of the input.

    Where some elements jump, most others are close. Where a smooth function amplifies rounding, all
    are far off; such an output jumps only if it is chaotic (CHAOS).
    """
    if not _differ(output, reference, dtype):
        return False
    if output.shape != reference.shape or (_whole(output) and _whole(reference)):
        return True
    error = relative_error(output, reference)
    typical = reference.square().mean().sqrt()
    usual = float(difference(output, reference).abs().median() / typical)
    few = not eager_is_sane(error, dtype) and eager_is_sane(usual, dtype)
    return few or error > CHAOS.error


def _whole(output: torch.Tensor) -> bool:
    """Whether all elements are whole numbers: a mask, class numbers, rounded or counted values."""
    return bool((output == output.round()).all())


def _differ(output: torch.Tensor, reference: torch.Tensor, dtype: str) -> bool:
    if output.shape != reference.shape:
        return True
    return not relative_error(output, reference) <= TOLERANCE[dtype] / 10


def _change(output: torch.Tensor, reference: torch.Tensor, resized: bool) -> OutputChange:
    if output.dim() != reference.dim():
        return OutputChange(math.inf, math.inf)
    sizes = (abs(a - b) for a, b in zip(output.shape, reference.shape, strict=True))
    size = max(sizes, default=0)
    if not resized:
        return OutputChange(size, relative_error(output, reference) if not size else math.inf)
    if not (output.numel() and reference.numel()):
        return OutputChange(size, math.inf if size else 0.0)
    ours, theirs = (tensor.flatten().sort().values for tensor in (output, reference))
    line = interpolate(ours[None, None], len(theirs), mode="linear", align_corners=True)[0, 0]
    return OutputChange(size, relative_error(line, theirs))
