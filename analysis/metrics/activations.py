"""Bytes saved for backward over a size: the part per unit of the size, and the constant part."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.analysis.format import style
from modescope.analysis.metrics.size_series import MIN_SIZES, Line, Series

TOLERANCE = 0.01  # largest relative distance of a point from a straight line through others


@dataclass(frozen=True)
class Saved:
    """The bytes that one mode saves at each size, by rising size."""

    line: Line
    sizes: tuple[int, ...]
    saved_bytes: tuple[float, ...]

    @property
    def per_unit_bytes(self) -> float:
        """The bytes added per unit of the size, between the smallest and the largest size."""
        return (self.saved_bytes[-1] - self.saved_bytes[0]) / (self.sizes[-1] - self.sizes[0])

    @property
    def fixed_bytes(self) -> float:
        """The straight line through these two at size 0: for example cast weights."""
        return self.saved_bytes[0] - self.per_unit_bytes * self.sizes[0]

    @property
    def is_straight(self) -> bool:
        """Whether all sizes lie on that line."""
        return all(
            abs(self.fixed_bytes + self.per_unit_bytes * size - known) <= TOLERANCE * known
            for size, known in zip(self.sizes, self.saved_bytes, strict=True)
        )


def saved(series: Series) -> list[Saved]:
    """Modes known to save bytes at MIN_SIZES sizes or more, in the order of figures."""
    lines = sorted(series.lines, key=lambda line: style.order(line.rows[0]))
    return [one for one in map(_of, lines) if len(one.sizes) >= MIN_SIZES]


def _of(line: Line) -> Saved:
    known = {
        size: float(row["saved_activation_bytes"])
        for size, row in zip(line.sizes, line.rows, strict=True)
        if row["saved_activation_bytes"]
    }
    return Saved(line, tuple(known), tuple(known.values()))
