"""What made a mode faster than plain eager: less work, or fewer launches and less dispatch?

The work of a call is its device time; on a CPU it is what dispatch leaves of the latency. Its ratio
to the work of plain eager with the same grad axis and dtype is the fusion gain: fused kernels read
and write less. Where a call is bound by overhead even a large one shows little in the latency, so
two steps lead to the speedup: eager with the work of the mode, then the mode itself. The first is
what fusion gained, and what is left is due to launching and dispatch.

Two modes were measured in two processes, and latencies of the same code differ between processes
more than their intervals say. So on a CPU no raw latencies are compared: each is taken by its
speedup over the same baseline, paired in its own process, and by the share that work has in it.
Device times have no such pair and are compared as they are: their interval says what holds within
each of the two processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import pandas as pd

from analysis import intervals, style, words
from analysis.formulas import Formula
from analysis.rows import SECTION, trusted
from analysis.words import Row
from bench.stats import Estimate

_SAME_WORK = (*SECTION, "dtype", "grad")
_SAME_BASELINE = ("baseline_mode", "baseline_dtype")
_NEEDED = (
    *_SAME_WORK, *_SAME_BASELINE, "compile", "graph", "autocast", "_ratio", "_latency", "_dispatch",
    "_device", "latency_s", "work_s", "host_s", "synchronize_s",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The work of one mode beside that of plain eager with the same grad axis and dtype."""

    row: Row
    reference: Row
    gain: Estimate

    @property
    def reference_work_s(self) -> float:
        """Eager's work as it would be in the process of `row`."""
        work_s: float = self.row["work_s"]
        return work_s * self.gain.value


def fusion(rows: pd.DataFrame) -> pd.Series:
    """The work of each row beside that of plain eager, a Pair; None where it cannot be said.

    Both rows have to be trusted, and the intervals must leave some work to either. The interval of
    the gain is the worst case of those that go into it.
    """
    known = dict(_known(rows))
    return pd.Series([known.get(place) for place in rows.index], index=rows.index, dtype="object")


def fusion_gain(part: str) -> Formula:
    """The formula of `value`, `low` or `high` of the gain of `_fusion`."""

    def take(rows: pd.DataFrame) -> pd.Series:
        told = [None if pair is None else getattr(pair.gain, part) for pair in rows["_fusion"]]
        return pd.Series(told, index=rows.index, dtype="float64")

    return take


def fusion_speedup(rows: pd.DataFrame) -> pd.Series:
    """How much faster would plain eager be if it had this row's work, and its own overhead?"""
    told = [None if pair is None else _with_less_work(pair) for pair in rows["_fusion"]]
    return pd.Series(told, index=rows.index, dtype="float64")


def launch_gain(rows: pd.DataFrame) -> pd.Series:
    """What is left of the speedup over the same grad axis once that of fusion is taken out of it?

    Null at another dtype than the baseline's, as then the two are not against the same row.
    """
    same_reference = rows["dtype"] == rows["baseline_dtype"]
    left: pd.Series = rows["speedup_same_grad"] / rows["fusion_speedup"]
    return left.where(same_reference)


def pairs(section: pd.DataFrame) -> list[Pair]:
    """The pairs among the derived rows of one SECTION, in the order of figures."""
    references = {_key(row): row for row in words.as_rows(trusted(section)) if _is_plain(row)}
    found = [
        Pair(row, references[_key(row)],
             Estimate(*(row[f"fusion_gain{part}"] for part in ("", "_ci_low", "_ci_high"))))
        for row in words.as_rows(section[section["fusion_gain"].notna()])
    ]  # fmt: skip
    return sorted(found, key=lambda pair: style.order(pair.row))


def _known(rows: pd.DataFrame) -> Iterator[tuple[Hashable, Pair]]:
    """The place in the index of each row that has a gain, and its pair."""
    good = trusted(rows)
    told = dict(zip(good.index, words.as_rows(good[list(_NEEDED)]), strict=True))
    references = {_key(row): row for row in told.values() if _is_plain(row)}
    for place, row in told.items():
        reference = None if _is_plain(row) else references.get(_key(row))
        if reference is not None and (gain := _gain(row, reference)) is not None:
            yield place, Pair(row, reference, gain)


def _is_plain(row: Row) -> bool:
    return row["compile"] == "none" and not row["graph"] and not row["autocast"]


def _key(row: Row) -> tuple[Hashable, ...]:
    names = _SAME_WORK if words.on_cuda(row) else (*_SAME_WORK, *_SAME_BASELINE)
    return tuple(row[name] for name in names)


def _gain(row: Row, reference: Row) -> Estimate | None:
    if words.on_cuda(row):
        return intervals.quotient(reference["_device"], row["_device"])
    faster = intervals.quotient(row["_ratio"], reference["_ratio"])
    return intervals.product(faster, intervals.quotient(_share(reference), _share(row)))


def _share(row: Row) -> Estimate | None:
    """The share of a call on a CPU that is work."""
    overhead = intervals.quotient(row["_dispatch"], row["_latency"])
    return intervals.difference(intervals.ONE, overhead)


def _with_less_work(pair: Pair) -> float | None:
    """The speedup of the reference if `gain` were all that changed."""
    reference = pair.reference
    latency_s, work_s = reference["latency_s"], reference["work_s"] / pair.gain.value
    if not words.on_cuda(pair.row):
        return float(latency_s / (latency_s - reference["work_s"] + work_s))
    return None if reference["host_s"] is None else float(latency_s / _on_cuda_s(reference, work_s))


def _on_cuda_s(row: Row, work_s: float) -> float:
    """How long a call would take with other work for the device, beside which the host works.

    More of it shows only beyond the host's time, and less of it not below what the host and a
    synchronise take that finds nothing to wait for.
    """
    latency_s, before_s, host_s = (float(row[name]) for name in ("latency_s", "work_s", "host_s"))
    if work_s > before_s:
        return latency_s + max(0.0, work_s - max(before_s, host_s))
    least_s = min(host_s + (row["synchronize_s"] or 0.0), latency_s)
    return max(latency_s - (before_s - work_s), least_s)
