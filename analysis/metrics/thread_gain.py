"""What further threads gain: a case against the same case with the fewest threads.

A speedup does not show it, as the baseline has the case's threads. Two numbers of threads are two
processes, so there is no ratio within rounds either: latencies are compared at equal pace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.format import phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.metrics.size_series import Line, variants, with_looks
from modescope.analysis.rows import equal_pace
from modescope.analysis.rows.select import OF_THREADS, THREADED, parts, per_row, trusted, values_of
from modescope.bench.stats import intervals
from modescope.bench.stats.estimates import Estimate

_NEEDED = (
    *THREADED, "threads", "flags",
    *(f"{clock}{end}_s" for clock in equal_pace.CLOCKS for end in ("", "_ci_low", "_ci_high")),
)  # fmt: skip


@dataclass(frozen=True)
class ThreadSeries:
    """Trusted rows of one work at one size, whose threads differ; a line for each mode."""

    lines: tuple[Line, ...]

    @property
    def counts(self) -> list[int]:
        """The numbers of threads, rising."""
        return sorted({count for line in self.lines for count in line.sizes})

    @property
    def clock(self) -> str:
        """The clock of `equal_pace.CLOCKS` that all rows have."""
        return equal_pace.clock(*(row for line in self.lines for row in line.rows))

    def gains(self, line: Line) -> list[tuple[Row, Estimate | None]]:
        """The rows of a line with more threads than the fewest of the series, and their gains.

        Each is over the row of the line with the fewest; None without that row, or where unknown.
        """
        least = self.counts[0]
        fewest = next((row for row in line.rows if row["threads"] == least), None)
        return [
            (row, gain(row, fewest, self.clock) if fewest else None)
            for row in line.rows
            if row["threads"] > least
        ]


def gains(rows: pd.DataFrame) -> pd.Series:
    """For each trusted row its gain over the fewest threads; None for these, and where unknown."""
    return per_row(rows, map(dict(_gains(rows)).get, rows.index), "object")


def _gains(rows: pd.DataFrame) -> Iterator[tuple[object, Estimate | None]]:
    good = trusted(rows.assign(flags=rows["_flags"]))[list(_NEEDED)]
    cases = zip(good.index, phrases.as_rows(good), strict=True)
    for members in phrases.grouped(
        (values_of(row, THREADED), (index, row)) for index, row in cases
    ).values():
        _, fewest = min(members, key=lambda pair: pair[1]["threads"])
        for index, row in members:
            if row["threads"] > fewest["threads"]:
                yield index, gain(row, fewest, equal_pace.clock(row, fewest))


def gain(row: Row, fewest: Row, clock: str) -> Estimate | None:
    """The latency of `fewest` ÷ that of `row`, both by one clock of `equal_pace.CLOCKS`.

    None without intervals, and where other programs ran beside one of them.
    """
    if not equal_pace.is_comparable(row, fewest):
        return None
    found = intervals.quotient(intervals.of_clock(fewest, clock), intervals.of_clock(row, clock))
    return None if found is None or found.low is None else found


def series(rows: pd.DataFrame) -> list[ThreadSeries]:
    """The works of `rows` that were measured with several numbers of threads."""
    every = (phrases.as_rows(part) for part in parts(trusted(rows), OF_THREADS))
    return [ThreadSeries(lines) for work in every if (lines := _lines(work))]


def _lines(rows: Sequence[Row]) -> tuple[Line, ...]:
    """A line for each variant with several numbers of threads, in the order of figures."""
    lines = []
    for name, members in variants(sorted(rows, key=style.order)).items():
        ordered = tuple(sorted(members, key=lambda row: row["threads"]))
        counts = tuple(row["threads"] for row in ordered)
        if len(set(counts)) > 1:
            lines.append(Line(name, ordered, counts, slope=None, crossing=None))
    return tuple(with_looks(lines))
