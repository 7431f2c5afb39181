"""What a call writes to buffers, such as a row of a KV cache, and its error against a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from modescope.bench.model import geometry
from modescope.bench.model.outputs import difference, double, zero_nonfinite


@dataclass(frozen=True)
class BufferWrite:
    """The elements of one buffer that a call changed, as float64."""

    shape: torch.Size
    places: torch.Tensor  # in the flattened buffer, ascending
    before: torch.Tensor
    after: torch.Tensor

    @property
    def change(self) -> torch.Tensor:
        """The elements after the call minus those before."""
        return difference(self.after, self.before)

    def error(self, reference: BufferWrite) -> float:
        """Returns the norm of the difference from `reference`, over the norm of what that wrote.

        An element that only one of the two changed counts with its change. So an entry that is
        written to another place, or not written, has an error of about 1 or more, however large the
        buffer is. If the reference wrote nothing, the divisor is the norm of what was there before.
        Infinite if shapes differ.
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
        size = _norm(zero_nonfinite(reference.after)) or _norm(zero_nonfinite(self.before))
        return _norm(wrong) / size if size else _norm(wrong)


Writes = dict[str, BufferWrite]  # by the buffer's name


def find_writes(module: torch.nn.Module, before: Mapping[str, torch.Tensor]) -> Writes:
    """Returns what changed in floating and complex buffers since the copies in `before`.

    Keys are names of buffers. A buffer whose shape has changed counts as zero before.
    """
    writes = {}
    for name, buffer in module.named_buffers(remove_duplicate=False):
        if name in before and (buffer.is_floating_point() or buffer.is_complex()):
            old, new = map(geometry.distinct, (before[name], buffer.detach()))
            old = old if old.shape == new.shape else torch.zeros_like(new)
            changed = (old != new) & ~(old.isnan() & new.isnan())
            if changed.any():
                places = changed.flatten().nonzero().flatten()
                writes[name] = BufferWrite(
                    new.shape, places, double(old[changed]), double(new[changed])
                )
    return writes


def buffer_errors(found: Writes, references: Writes) -> dict[str | None, float]:
    """Returns the error of what `found` wrote to each buffer, against what `references` wrote.

    Covers buffers that either of them wrote; the keys are `buffer NAME`.
    """
    nothing = {
        name: BufferWrite(write.shape, write.places[:0], write.before[:0], write.after[:0])
        for name, write in {**references, **found}.items()
    }
    return {
        f"buffer {name}": found.get(name, none).error(references.get(name, none))
        for name, none in sorted(nothing.items())
    }


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values))
