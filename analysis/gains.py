"""What made a mode faster than plain eager: less work, or fewer launches and less dispatch?

The work of a call is its device time; on a CPU it is what dispatch leaves of the latency. Its ratio
to the work of plain eager with the same grad axis and dtype is the fusion gain: fused kernels read
and write less. Where a call is bound by overhead even a large one shows little in the latency, so
two steps lead to the speedup: eager with the work of the mode, then the mode itself. The first is
what fusion gained, and what is left is due to launching and dispatch.

Two modes were measured in two processes, and latencies of the same code differ between processes
more than their intervals say. So on a CPU no raw latencies are compared: each is taken by its
speedup over the same baseline, paired in its own process, and by the share that work has in it.
Device times have no such pair and are compared as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import pandas as pd

from analysis import intervals, style, words
from analysis.formulas import Formula
from analysis.rows import SECTION, trusted
from analysis.words import Row
from bench import stats
from bench.stats import Estimate

_SAME_WORK = (*SECTION, "dtype", "grad")
_SAME_BASELINE = ("baseline_mode", "baseline_dtype")
_VERDICTS = {
    "faster": "less work than in plain eager",
    "slower": "more work",
    "equivalent": f"as much within ±{words.whole_percent(stats.MARGIN)}",
    "inconclusive": "the intervals leave open whether less",
}


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


def fusion(part: str) -> Formula:
    """The formula of `value`, `low` or `high` of the fusion gain; null where it cannot be said.

    Both rows have to be trusted, and the intervals must leave some work to either. The interval is
    the worst case of those that go into it.
    """

    def take(rows: pd.DataFrame) -> pd.Series:
        found = {place: getattr(pair.gain, part) for place, pair in _known(rows)}
        return pd.Series(found, index=rows.index, dtype="float64")

    return take


def fusion_speedup(rows: pd.DataFrame) -> pd.Series:
    """How much faster would plain eager be if it had this row's work, and its own overhead?"""
    found = {place: _with_less_work(pair) for place, pair in _known(rows)}
    return pd.Series(found, index=rows.index, dtype="float64")


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


def reading(section: pd.DataFrame) -> str | None:
    """Which modes do less work, and what did that gain? None where nothing is known."""
    told: dict[str, list[str]] = {}
    for pair in pairs(section):
        known = stats.verdict(pair.gain) or "inconclusive"
        told.setdefault(known, []).append(f"{words.variant(pair.row)} ({_numbers(pair)})")
    if not told:
        return None
    sentence = "; ".join(
        f"{title}: {', '.join(told[name])}" for name, title in _VERDICTS.items() if name in told
    )
    return f"{sentence[0].upper()}{sentence[1:]}."


def _numbers(pair: Pair) -> str:
    parts = [words.ratio(pair.gain)]
    counts = pair.row["kernels"], pair.reference["kernels"]
    if None not in counts:
        own = words.counted(counts[0], "kernel", "kernels")
        parts.append(f"{own} for {words.count(counts[1])}")
    if (beyond := pair.row["launch_gain"]) is not None:
        overhead = "launching" if words.on_cuda(pair.row) else "dispatch"
        alone = words.factor(pair.row["fusion_speedup"])
        parts.append(f"which alone gains {alone}, and {overhead} {words.factor(beyond)}")
    return ", ".join(parts)


def _known(rows: pd.DataFrame) -> Iterator[tuple[Hashable, Pair]]:
    """The place in the index of each row that has a gain, and its pair."""
    good = trusted(rows)
    told = dict(zip(good.index, words.as_rows(good), strict=True))
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
    """The speedup of the reference if `gain` were all that changed.

    On CUDA the host works beside the device: what it takes a call cannot be shorter than.
    """
    latency_s, work_s = pair.reference["latency_s"], pair.reference["work_s"]
    shorter_s = latency_s - work_s * (1 - 1 / pair.gain.value)
    if not words.on_cuda(pair.row):
        return float(latency_s / shorter_s)
    host_s = pair.reference["host_s"]
    return None if host_s is None else float(latency_s / max(shorter_s, min(host_s, latency_s)))
