"""Rules on data that are read from memory, as they are evicted from caches before each call.

How long it takes to read them in order is measured by itself, before the rounds. A call may read
them in another order, which takes longer, or while it computes, which hides it. A rule returns
evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

from modescope.analysis.causes.outcome import is_faster
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import ends, is_wide

LEAST = 0.03
"""The smallest share of a call that is named."""

FEWER = 0.9
"""The mode reads fewer data than its baseline if it reads less than this part of their bytes."""

SMALLER = "Fewer bytes, such as weights in bf16, take less time."


def cold_reads(context: Context) -> Evidence | None:
    """Reading the evicted data from memory takes longer than out of a cache, by 3 % of the call."""
    row = context.row
    cold_s, warm_s = row["cold_read_s"], row["warm_read_s"]
    if cold_s is None or warm_s is None or row["latency_paired_s"] is None:
        return None
    share = (cold_s - warm_s) / _longest_s(row)
    if share < LEAST:
        return None
    texts = {
        "data": phrases.data(row), "cold": numbers.duration(cold_s), "rate": _rate(row),
        "warm": numbers.duration(warm_s), "share": numbers.share(share, 1),
        "size": numbers.size(row["evicted_bytes"]), "fewer": "" if _is_small(row) else SMALLER,
    }  # fmt: skip
    return Evidence(share, texts)


def fewer_cold_reads(context: Context) -> Evidence | None:
    """The mode is faster, and its data that are read from memory are fewer than the baseline's."""
    row = context.row
    mine, before = row["evicted_bytes"], row["baseline_evicted_bytes"]
    call = row["baseline_latency_s"]
    if not is_faster(row) or not mine or not before or mine > FEWER * before or call is None:
        return None
    if row["cold_read_s"] is None:
        return None
    share = row["cold_read_s"] * (before / mine - 1) / ends(call)[1]
    if share < LEAST:
        return None
    texts = {
        "size": numbers.size(mine), "before": numbers.size(before), "rate": _rate(row),
        "share": numbers.share(min(share, 1.0), 1),
    }  # fmt: skip
    return Evidence(min(share, 1.0), texts)


def _is_small(row: Row) -> bool:
    """Whether weights have two bytes each already, which those of autocast have not."""
    return row["dtype"] in ("bf16", "fp16") and not row["autocast"]


def _longest_s(row: Row) -> float:
    """The latency, or where its middle is not told the upper end of its interval."""
    latency = required(row["latency_paired_s"])
    speedup = row["speedup"]
    return ends(latency)[1] if speedup is not None and is_wide(speedup) else latency.value


def _rate(row: Row) -> str:
    return f"{required(row['evicted_bytes']) / required(row['cold_read_s']) / 1e9:.3g} GB/s"


CAUSES = (
    Cause(
        Kind.GAIN, fewer_cold_reads,
        "{size} of its data are in no cache before a call, and {before} of the baseline's; reading "
        "all of them in order, at {rate}, differs by {share} of the baseline's call.",
    ),
    Cause(
        Kind.LIMIT, cold_reads,
        "a call finds {size} of its data in no cache ({data}): reading all of them in order takes "
        "{cold} from memory ({rate}) and {warm} out of the cache, a difference of {share} of the "
        "call. It costs the call less where that reads only a part of them or computes meanwhile, "
        "and more where that reads them in another order.",
        "{fewer}",
    ),
)  # fmt: skip
