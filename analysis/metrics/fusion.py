"""Splits a mode's speedup over plain eager into less work, and less launching and dispatch.

The work of a call is its device time; on a CPU it is the latency without dispatch. Plain eager's
work (same grad axis and dtype) ÷ the mode's is the fusion gain: fused kernels read and write less.
If a call is bound by overhead, even a large fusion gain changes the latency little. So the speedup
is split in two steps: from eager to eager with the mode's work (the fusion speedup), and from there
to the mode (the launch gain).

The two modes ran in two processes, and latencies of the same code differ between processes by more
than their intervals. On a CPU no raw latencies are therefore compared, but speedups over the same
baseline, each paired within its process, and the shares of work. Device times have no such pair and
are compared directly: their intervals hold within each of the two processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows import intervals
from modescope.analysis.rows.select import SECTION, is_plain, per_row, trusted, values_of
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.stats.estimates import Estimate

_SAME_WORK = (*SECTION, "dtype", "grad")
_SAME_BASELINE = ("baseline_mode", "baseline_dtype")
_NEEDED = (
    *_SAME_WORK, *_SAME_BASELINE, *PLAIN_EAGER, "_ratio", "_latency", "_dispatch",
    "_device", "latency_s", "work_s", "host_s", "synchronize_s",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The work of one mode, and of plain eager with the same grad axis and dtype."""

    row: Row
    reference: Row
    gain: Estimate

    @property
    def reference_work_s(self) -> float:
        """Eager's work at the speed of the process of `row`."""
        work_s: float = self.row["work_s"]
        return work_s * self.gain.value

    @property
    def speedup(self) -> float | None:
        """The speedup of plain eager if it had this row's work and kept its own overhead."""
        eager = self.reference
        latency_s, work_s = eager["latency_s"], eager["work_s"] / self.gain.value
        if not phrases.on_cuda(self.row):
            return float(latency_s / (latency_s - eager["work_s"] + work_s))
        return None if eager["host_s"] is None else float(latency_s / _on_cuda_s(eager, work_s))


def fusion(rows: pd.DataFrame) -> pd.Series:
    """A Pair for each row: its work and plain eager's; None where unknown.

    Both rows must be trusted, and both intervals of work must exclude 0. The interval of the gain
    is the worst case of its inputs' intervals.
    """
    return per_row(rows, map(dict(_pairs(rows)).get, rows.index), "object")


def launch_gain(rows: pd.DataFrame) -> pd.Series:
    """The speedup over the same grad axis ÷ the part that is due to fusion.

    Null at another dtype than the baseline's, because the two then refer to different rows.
    """
    same_reference = rows["dtype"] == rows["baseline_dtype"]
    gain: pd.Series = rows["speedup_same_grad"] / rows["fusion_speedup"]
    return gain.where(same_reference)


def _pairs(rows: pd.DataFrame) -> Iterator[tuple[Hashable, Pair]]:
    """The index of each row that has a gain, and its pair."""
    good = trusted(rows)
    candidates = dict(zip(good.index, phrases.as_rows(good[list(_NEEDED)]), strict=True))
    references = references_of(candidates.values())
    for place, row in candidates.items():
        reference = None if is_plain(row) else references.get(work_of(row))
        if reference is not None and (gain := _gain(row, reference)) is not None:
            yield place, Pair(row, reference, gain)


def references_of(rows: Iterable[Row]) -> dict[tuple[Hashable, ...], Row]:
    """Plain eager among the trusted `rows`, by `work_of`."""
    return {work_of(row): row for row in rows if is_plain(row)}


def work_of(row: Row) -> tuple[Hashable, ...]:
    """The key that a row shares with its reference."""
    return values_of(row, _SAME_WORK if phrases.on_cuda(row) else (*_SAME_WORK, *_SAME_BASELINE))


def _gain(row: Row, reference: Row) -> Estimate | None:
    if phrases.on_cuda(row):
        return intervals.quotient(reference["_device"], row["_device"])
    faster = intervals.quotient(row["_ratio"], reference["_ratio"])
    return intervals.product(faster, intervals.quotient(_share(reference), _share(row)))


def _share(row: Row) -> Estimate | None:
    """The share of a call on a CPU that is work."""
    overhead = intervals.quotient(row["_dispatch"], row["_latency"])
    return intervals.difference(intervals.ONE, overhead)


def _on_cuda_s(row: Row, work_s: float) -> float:
    """The time of a call if its device work took `work_s`, while the host works in parallel.

    More work adds only what exceeds the host's time; less work cannot bring the call below the
    host's time plus a synchronise that does not wait.
    """
    latency_s, before_s, host_s = (float(row[name]) for name in ("latency_s", "work_s", "host_s"))
    if work_s > before_s:
        return latency_s + max(0.0, work_s - max(before_s, host_s))
    least_s = min(host_s + (row["synchronize_s"] or 0.0), latency_s)
    return max(latency_s - (before_s - work_s), least_s)
