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
from modescope.analysis.derive.select import FAMILY, split_table, values_of
from modescope.analysis.derive.series import Line, SizeSeries, series
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped
from modescope.bench.records.cases import QUANTIZE, canonical_json
from modescope.bench.records.outcomes import Status
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate, Verdict

_SAME = ("baseline_mode", "baseline_dtype", "compile_cache", "fullgraph")
_MODE = ("mode", "dtype", "apart", *_SAME)


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
        if pays == sizes[-1:]:
            text = f"at {self.size} {pays[0]} only, the largest measured"
            return text, (pays[0], others[-1])
        if pays[0] > others[-1]:
            return f"from {self.size} {pays[0]} on", (pays[0], others[-1])
        if pays[-1] < others[0] and len(pays) > 1:
            return f"up to {self.size} {pays[-1]}", (pays[-1], others[0])
        at = phrases.listed([f"{size}" for size in pays])
        near = min(others, key=lambda size: abs(sizes.index(size) - sizes.index(pays[0])))
        return f"at {self.size} {at} only", (pays[0], near)


def told(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Says of each mode with fewer bits from which size on it pays, at each of the other sizes.

    Returns pairs of a work, with its place if there are several, and a sentence on a mode. The size
    is the one with the most values.
    """
    found = list[tuple[str, str]]()
    several = len(rows[["environment", "device", "threads"]].drop_duplicates()) > 1
    for family in split_table(rows, FAMILY) if rows["quantize"].notna().any() else ():
        every = [(part, mode) for part in series(family) for mode in fewer_bits(part)]
        if not every:
            continue
        size = max(every, key=lambda pair: len(pair[1].gains))[0].size
        modes = grouped(((mode.line.name, mode.over), (part, mode)) for part, mode in every
                        if part.size == size)  # fmt: skip
        first = every[0][1].line.rows[0]
        place = f", on {phrases.place(first, letter=True)}" if several else ""
        work = f"{phrases.work_at(first, '{}')}{place}"
        found += [(work, _of_mode(members, as_rows(family))) for members in modes.values()]
    return found


def _of_mode(members: Sequence[tuple[SizeSeries, Bits]], rows: Sequence[Row]) -> str:
    others = [json.loads(part.others) for part, _ in members]
    names = dict.fromkeys(name for sizes in others for name in sizes)
    differing = [name for name in names if len({sizes.get(name) for sizes in others}) > 1]
    places = []
    for (part, mode), sizes in zip(members, others, strict=True):
        label = phrases.sizes(canonical_json({n: sizes[n] for n in differing if n in sizes}))
        unset = [f"{name} by default" for name in differing if name not in sizes]
        lost = _lost(part, mode.line, rows)
        words = (", ".join(filter(None, (label, *unset))), mode.detailed, lost and f"({lost})")
        places.append(" ".join(filter(None, words)))
    every = [mode for _, mode in members]
    start = f"{every[0].line.name} is shown to be faster than {every[0].over}"
    errors = [mode.error for mode in every if mode.error is not None]
    error = f"; relative error up to {numbers.scientific(max(errors))}" if errors else ""
    return f"{start}{':' if differing else ''} {'; '.join(places)}{error}"


def _lost(part: SizeSeries, line: Line, rows: Sequence[Row]) -> str:
    """Names the sizes at which the mode of `line` has no result that counts: `1024: failed`."""
    found = {}
    for row in rows:
        sizes = json.loads(row["shape"])
        size = sizes.pop(part.size, None)
        same = values_of(row, _MODE) == values_of(line.rows[0], _MODE)
        if same and size not in (None, *line.sizes) and canonical_json(sizes) == part.others:
            status = Status(row["status"])
            found[size] = "not counted" if status is Status.OK else status.replace("_", " ")
    return ", ".join(f"{size}: {why}" for size, why in sorted(found.items()))


def fewer_bits(part: SizeSeries) -> list[Bits]:
    """Returns what each mode with fewer bits gains over the sizes of `part`."""
    return [found for line in part.lines if (found := _bits(line, part))]


def _bits(line: Line, part: SizeSeries) -> Bits | None:
    if not line.rows[0]["quantize"]:
        return None
    full = [_with_all_bits(row, part) for row in line.rows]
    known = [row for row in full if row is not None]
    if known:  # perhaps not at every size
        over = phrases.mode(known[0])
        ratios = [
            None if other is None else against.ratio(_both(row), _both(other))
            for row, other in zip(line.rows, full, strict=True)
        ]
    else:
        over, ratios = phrases.baseline(line.rows[0]), [_both(row)["speedup"] for row in line.rows]
    gains = {size: gain for size, gain in zip(line.sizes, ratios, strict=True) if gain is not None}
    return Bits(line, part.size, over, gains) if gains else None


def _both(row: Row) -> Row:
    """Returns `row`; if a second process confirmed its speedup, with an interval that has both."""
    again = row["confirming_speedup"]
    if row["speedup"] is None or again is None:
        return row
    return {**row, "speedup": estimates.hull([row["speedup"], again])}


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
