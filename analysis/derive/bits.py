"""What fewer bits of weights (`mode.quantize`) gain over a size, beside the same mode with all.

A speedup over eager has the gain of compiling within it. So a row is compared with the row of the
same mode without `mode.quantize`, which was measured over the same baseline (`against.ratio`).
"""

from __future__ import annotations

from dataclasses import dataclass

from modescope.analysis.derive import against
from modescope.analysis.derive.select import values_of
from modescope.analysis.derive.series import Line, SizeSeries
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench.records.cases import QUANTIZE
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
    def text(self) -> str:
        """From which size on it pays, in a sentence with the largest error."""
        error = numbers.scientific(self.error)
        return f"{self.line.name} {self._where()}; relative error up to {error}"

    def _where(self) -> str:
        sizes, pays, over = list(self.gains), self.pays_at, f"faster than {self.over}"
        told = {size: f"{numbers.ratio(gain)} at {size}" for size, gain in self.gains.items()}
        if not pays:
            return f"is at no {self.size} from {sizes[0]} to {sizes[-1]} shown to be {over}"
        others = [size for size in sizes if size not in pays]
        if not others:
            return f"is {over} at every {self.size} from {sizes[0]} to {sizes[-1]}: {told[pays[0]]}"
        if pays[0] > others[-1]:
            return f"is {over} from {self.size} {pays[0]} on: {told[pays[0]]}, {told[others[-1]]}"
        if pays[-1] < others[0]:
            return f"is {over} up to {self.size} {pays[-1]}: {told[pays[-1]]}, {told[others[0]]}"
        at = phrases.listed([f"{size}" for size in pays])
        return f"is {over} at {self.size} {at} only: {told[pays[0]]}"


def fewer_bits(series: SizeSeries) -> list[Bits]:
    """Returns what each mode with fewer bits gains over the sizes of `series`."""
    return [found for line in series.lines if (found := _bits(line, series))]


def _bits(line: Line, series: SizeSeries) -> Bits | None:
    if not line.rows[0]["quantize"]:
        return None
    full = [_with_all_bits(row, series) for row in line.rows]
    known = [row for row in full if row is not None]
    if len(known) == len(full):
        over = phrases.mode(known[0])
        ratios = [against.ratio(row, other) for row, other in zip(line.rows, known, strict=True)]
    else:
        over, ratios = phrases.baseline(line.rows[0]), [row["speedup"] for row in line.rows]
    gains = {size: gain for size, gain in zip(line.sizes, ratios, strict=True) if gain is not None}
    return Bits(line, series.size, over, gains) if gains else None


def _with_all_bits(row: Row, series: SizeSeries) -> Row | None:
    """Returns the row of the same mode and sizes without `mode.quantize`; None if there is none."""
    found = (
        other
        for line in series.lines
        for other in line.rows
        if other["shape"] == row["shape"]
        and values_of(other, _SAME) == values_of(row, _SAME)
        and predicates.is_without(other, row, QUANTIZE)
    )
    return next(found, None)
