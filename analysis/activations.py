"""What a call keeps for a backward, over a size: how much comes with each unit, how much stays."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import numbers, style
from analysis.series import MIN_SIZES, Line, Series

TOLERANCE = 0.01  # of a size in bytes: what is nearer to a line than that lies on it


@dataclass(frozen=True)
class Saved:
    """The bytes that one mode saves at each size, in the order of the sizes."""

    line: Line
    sizes: tuple[int, ...]
    saved_bytes: tuple[float, ...]

    @property
    def per_unit_bytes(self) -> float:
        """What each further unit of the size adds, between the two outermost sizes."""
        return (self.saved_bytes[-1] - self.saved_bytes[0]) / (self.sizes[-1] - self.sizes[0])

    @property
    def fixed_bytes(self) -> float:
        """What a straight line through these two leaves at size 0: such as casted weights."""
        return self.saved_bytes[0] - self.per_unit_bytes * self.sizes[0]

    @property
    def is_straight(self) -> bool:
        """Whether all sizes lie on that line."""
        return all(
            abs(self.fixed_bytes + self.per_unit_bytes * size - known) <= TOLERANCE * known
            for size, known in zip(self.sizes, self.saved_bytes, strict=True)
        )


def saved(found: Series) -> list[Saved]:
    """The lines of modes that are known to save something at MIN_SIZES sizes, in figures' order."""
    lines = sorted(found.lines, key=lambda line: style.order(line.rows[0]))
    told = [_of(line) for line in lines]
    return [one for one in told if len(one.sizes) >= MIN_SIZES]


def _of(line: Line) -> Saved:
    known = {
        size: float(row["saved_activation_bytes"])
        for size, row in zip(line.sizes, line.rows, strict=True)
        if row["saved_activation_bytes"]
    }
    return Saved(line, tuple(known), tuple(known.values()))


def reading(found: Series) -> str | None:
    """How much does each mode save for each unit of the size? None where nothing is saved."""
    every = saved(found)
    if not every:
        return None
    clauses = {
        f"Saved for a backward per unit of {found.size}": [
            _straight(one, found) for one in every if one.is_straight
        ],
        f"Not in line with {found.size}": [
            _bent(one, found) for one in every if not one.is_straight
        ],
        "Nothing is saved by": _without(found),
    }
    return " ".join(f"{title}: {', '.join(told)}." for title, told in clauses.items() if told)


def _straight(one: Saved, found: Series) -> str:
    told = f"{one.line.name} {numbers.size(one.per_unit_bytes)}"
    if abs(one.fixed_bytes) <= TOLERANCE * one.saved_bytes[0]:
        return told
    return f"{told} (and {numbers.size(one.fixed_bytes)} at any {found.size})"


def _bent(one: Saved, found: Series) -> str:
    ends = [
        f"{numbers.size(one.saved_bytes[place])} at {found.size} {one.sizes[place]}"
        for place in (0, -1)
    ]
    return f"{one.line.name} ({' and '.join(ends)})"


def _without(found: Series) -> list[str]:
    return [
        line.name for line in found.lines
        if all(row["saved_activation_bytes"] == 0 for row in line.rows)
    ]  # fmt: skip
