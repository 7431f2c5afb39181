"""What fewer bits of weights (`mode.quantize`) gain over a size, beside the same mode with all.

A speedup over eager has the gain of compiling within it. So a row is compared with the row of the
same mode without `mode.quantize`, which was measured over the same baseline (`against.ratio`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.derive import against
from modescope.analysis.derive.select import values_of
from modescope.analysis.derive.series import Line, SizeSeries, series
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped
from modescope.bench.records.cases import QUANTIZE, canonical_json
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate, Verdict

_SAME = ("baseline_mode", "baseline_dtype", "compile_cache")


@dataclass(frozen=True)
class Bits:
    """What fewer bits gain in one mode, over the sizes of a series."""

    line: Line
    size: str  # the name of the size: width
    over: str  # what is compared with: a mode with all bits, or the baseline
    gains: dict[int, Estimate]  # by size, rising: how many times as fast

    @property
    def pays_at(self) -> list[int]:
        """The sizes at which the mode is faster by its interval."""
        found = self.gains.items()
        return [size for size, gain in found if estimates.verdict(gain) is Verdict.FASTER]

    @property
    def error(self) -> float | None:
        """The largest relative error of the rows; None if none is known."""
        known = [row["error"] for row in self.line.rows if row["error"] is not None]
        return max(known, default=None)

    @property
    def where(self) -> str:
        """The sizes at which it pays: `from width 1024 on`."""
        return self._told[0]

    @property
    def detailed(self) -> str:
        """The text of `where`, with the gain there and at the next size where it does not pay."""
        text, sizes = self._told
        told = ", ".join(f"{numbers.ratio(self.gains[size])} at {size}" for size in sizes)
        return f"{text} ({told})" if told else text

    @property
    def _told(self) -> tuple[str, Sequence[int]]:
        sizes, pays = [*self.gains], self.pays_at
        others = [size for size in sizes if size not in pays]
        if not pays or not others:
            which = "every" if pays else "no"
            return f"at {which} {self.size} from {sizes[0]} to {sizes[-1]}", pays[:1]
        if pays[0] > others[-1]:
            return f"from {self.size} {pays[0]} on", (pays[0], others[-1])
        if pays[-1] < others[0] and len(pays) > 1:
            return f"up to {self.size} {pays[-1]}", (pays[-1], others[0])
        at = phrases.listed([f"{size}" for size in pays])
        return f"at {self.size} {at} only", (pays[0], others[0])


def sentences(family: pd.DataFrame) -> list[str]:
    """Says of each mode with fewer bits from which size on it pays, at each of the other sizes.

    The size is the one with the most values. All rows of `family` have equal values in FAMILY.
    """
    if family["quantize"].isna().all():
        return []
    every = [(part, found) for part in series(family) for found in fewer_bits(part)]
    if not every:
        return []
    size = max(every, key=lambda pair: len(pair[1].gains))[0].size
    mine = [(part, found) for part, found in every if part.size == size]
    modes = grouped(((found.line.name, found.over), (part, found)) for part, found in mine)
    return [_of_mode(members) for members in modes.values()]


def _of_mode(members: Sequence[tuple[SizeSeries, Bits]]) -> str:
    others = [json.loads(part.others) for part, _ in members]
    differing = [name for name in others[0] if len({sizes[name] for sizes in others}) > 1]
    labels = (
        phrases.sizes(canonical_json({name: sizes[name] for name in differing})) for sizes in others
    )
    every = [found for _, found in members]
    places = (f"{label} {found.detailed}" for label, found in zip(labels, every, strict=True))
    start = f"{every[0].line.name} is shown to be faster than {every[0].over}"
    colon = ":" if differing else ""
    errors = [found.error for found in every if found.error is not None]
    error = numbers.scientific(max(errors, default=None))
    told = "; ".join(place.strip() for place in places)
    return f"{start}{colon} {told}; relative error up to {error}"


def fewer_bits(part: SizeSeries) -> list[Bits]:
    """Returns what each mode with fewer bits gains over the sizes of `part`."""
    return [found for line in part.lines if (found := _bits(line, part))]


def _bits(line: Line, part: SizeSeries) -> Bits | None:
    if not line.rows[0]["quantize"]:
        return None
    full = [_with_all_bits(row, part) for row in line.rows]
    known = [row for row in full if row is not None]
    if len(known) == len(full):
        over = phrases.mode(known[0])
        ratios = [against.ratio(row, other) for row, other in zip(line.rows, known, strict=True)]
    else:
        over, ratios = phrases.baseline(line.rows[0]), [row["speedup"] for row in line.rows]
    gains = {size: gain for size, gain in zip(line.sizes, ratios, strict=True) if gain is not None}
    return Bits(line, part.size, over, gains) if gains else None


def _with_all_bits(row: Row, part: SizeSeries) -> Row | None:
    """Returns the row of the same mode and sizes without `mode.quantize`; None if there is none."""
    found = (
        other
        for line in part.lines
        for other in line.rows
        if other["shape"] == row["shape"]
        and values_of(other, _SAME) == values_of(row, _SAME)
        and predicates.is_without(other, row, QUANTIZE)
    )
    return next(found, None)
