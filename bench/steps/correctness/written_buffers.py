"""What a call writes into the module's buffers, such as its entry of a KV cache, and its error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from modescope.bench.steps import geometry
from modescope.bench.steps.outputs import difference, double, finite


@dataclass(frozen=True)
class Written:
    """The elements of one buffer that a call changed, as float64."""

    shape: torch.Size
    places: torch.Tensor  # in the flattened buffer, ascending
    before: torch.Tensor
    after: torch.Tensor

    @property
    def change(self) -> torch.Tensor:
        """After minus before."""
        return difference(self.after, self.before)

    def error(self, reference: Written) -> float:
        """Norm of the difference from `reference`, over the norm of what that one wrote.

        An element that only one of both changed counts by its change. So an entry in another place,
        or none, has an error of about 1 or more, however large the buffer is. Where the reference
        wrote nothing, the norm is that of what was there before. Infinite where shapes differ.
        """
        if self.shape != reference.shape:
            return math.inf
        here = torch.isin(self.places, reference.places)
        there = torch.isin(reference.places, self.places)
        wrong = torch.cat(
            [
                difference(self.after[here], reference.after[there]),
                self.change[~here],
                reference.change[~there],
            ]
        )
        size = _norm(finite(reference.after)) or _norm(finite(self.before))
        return _norm(wrong) / size if size else _norm(wrong)


Writes = dict[str, Written]  # by the buffer's name


def written(module: torch.nn.Module, before: Mapping[str, torch.Tensor]) -> Writes:
    """What changed in floating and complex buffers since they were copied to `before`.

    A buffer that has another shape than before counts as zero before.
    """
    writes = {}
    for name, buffer in module.named_buffers(remove_duplicate=False):
        if name in before and (buffer.is_floating_point() or buffer.is_complex()):
            old, new = map(geometry.distinct, (before[name], buffer.detach()))
            old = old if old.shape == new.shape else torch.zeros_like(new)
            changed = (old != new) & ~(old.isnan() & new.isnan())
            if changed.any():
                places = changed.flatten().nonzero().flatten()
                writes[name] = Written(
                    new.shape, places, double(old[changed]), double(new[changed])
                )
    return writes


def errors(found: Writes, references: Writes) -> dict[str | None, float]:
    """The error of each buffer that either of both changed."""
    return {
        f"buffer {name}": _error(found.get(name), references.get(name))
        for name in sorted({*found, *references})
    }


def _error(found: Written | None, reference: Written | None) -> float:
    known = found or reference
    assert known is not None
    return (found or _nothing(known)).error(reference or _nothing(known))


def _nothing(like: Written) -> Written:
    return Written(like.shape, like.places[:0], like.before[:0], like.after[:0])


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values))
