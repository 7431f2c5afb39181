"""The summary of a row: its headline numbers and flags, computed from that row alone.

The process that measures stores the summary in the row; `modescope restat` computes it
anew. Numbers that compare several rows are in `analysis.derive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import compress
from typing import Any

import numpy as np

from modescope.bench.records.columns.passes import WorkCounts
from modescope.bench.records.columns.timing import Contention
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import StoredRow
from modescope.bench.records.summary_columns import ESTIMATES, NUMBERS, OF_GAP, SUMMARY, VALUES
from modescope.bench.stats import diagnostics, estimates, gap
from modescope.bench.stats.estimates import (
    ONE,
    Estimate,
    Verdict,
    difference,
    ends,
    product,
    quotient,
)
from modescope.bench.stats.roofline import Ceilings, Floor, floor

VERSION = 5
"""Version of the formulas, increased when one changes. When a row with another version is read, its
summary is computed anew."""

MIN_CALLS_P95 = 100  # five calls beyond the percentile; with fewer, outliers determine it
TOLERANCE = 0.05  # by which clocks that should agree may differ, because medians are noisy
PROFILE_TOLERANCE = 0.15  # by which work by the profiler and by the clocks may differ

MOST_DISPATCH = 1 / 6
"""Largest share of dispatch in a call for which `split_disagrees` is checked.

The profiler times a CPU kernel from the operator's entry. Its time thus includes a part of what an
empty batch measures as dispatch (checks, allocation of the result), and the profiler's own cost for
operators inside it: together 40 to 70 % of dispatch, as measured on MLP, transformer block and
pointwise chains of 27 us to 2 ms. 70 % of one sixth is 14 % of the other five sixths; with more
dispatch both may be right and still disagree, so the split is not checked there. The profiler's
cost is not subtracted by `profiler_overhead`, because most of it lies between kernels.
"""

GROWS = "work_grows"
"""The flag of a row whose calls do more work the more were made before. It has no verdict."""

STEP_PARTS = ("forward", "backward", "optimizer", "scaler")
"""Parts of a training step. Each is timed with a wait at its end, and the whole step is timed
too."""

PAIRED = ("latency_rounds_s", "baseline_latency_rounds_s", "case_ran_first", "pace_rounds_s")
"""Columns with a value for each paired round."""

Found = dict[str, Estimate | None]
"""The estimates of a row by name; None if one is unknown."""


def summary(row: StoredRow) -> dict[str, Any]:
    """Returns the columns SUMMARY of a row; numbers are None if its status is not ok."""
    ok = row["status"] == Status.OK
    counted = at_full_pace(row)
    found = all_estimates(row) if ok else dict.fromkeys((*ESTIMATES, *VALUES))
    flags = [*(row["flags"] or ()), *(own_flags(counted, found) if ok else ())]
    is_judged = not is_smoke(row) and GROWS not in flags
    measured, rounds = row["latency_rounds_s"], counted["latency_rounds_s"]
    flat: dict[str, Any] = dict.fromkeys(SUMMARY.names)
    for name, columns in ESTIMATES.items():
        if (known := found[name]) is not None:
            flat |= dict(zip(columns, (known.value, known.low, known.high), strict=True))
    for name, column in VALUES.items():
        if (known := found[name]) is not None:
            flat[column] = known.value
    return flat | {
        "summary_version": VERSION,
        "verdict": _verdict(row, found) if is_judged else None,
        "mde": estimates.mde(found["speedup"]),
        "rounds": len(rounds) if ok and rounds is not None else None,
        "slow_rounds": len(measured) - len(rounds) if ok and rounds is not None else None,
        "peak_bytes": _peak_bytes(row) if ok else None,
        "row_flags": [*dict.fromkeys(flags)],
    }


def at_full_pace(row: StoredRow) -> StoredRow:
    """Returns a row on CUDA without the paired rounds during which its host was slow.

    A slow host lengthens what waits for it and not what the device does, so it changes the ratio. A
    round is slow if its pace exceeds SLOW_PACE × the machine's best. The row is returned as it is
    if fewer than MIN_ROUNDS rounds would be left, on a CPU, and if the pace is unknown.
    """
    kept = diagnostics.at_full_pace(row["pace_rounds_s"], row["best_pace_s"])
    if kept is None or not on_cuda(row) or row["latency_rounds_s"] is None:
        return row
    if sum(kept) < estimates.MIN_ROUNDS or all(kept) or len(kept) != len(row["latency_rounds_s"]):
        return row
    rounds = {name: row[name] for name in PAIRED if row[name] is not None}
    return {**row, **{name: tuple(compress(values, kept)) for name, values in rounds.items()}}


def all_estimates(row: StoredRow) -> Found:
    """Returns every estimate of a row by name, None where it is unknown.

    The row's status must be ok. Those of paired rounds are estimated from `at_full_pace(row)`.
    """
    ends_s, row = diagnostics.pace_ends_s(row["pace_rounds_s"]), at_full_pace(row)
    found: Found = {}
    for number in NUMBERS:
        rounds = [row[f"{clock}_rounds_s"] for clock in number.clocks]
        if len(rounds) == 1:
            found[number.name] = estimates.median_interval(*rounds)
        elif rounds:
            found[number.name] = estimates.ratio(*rounds)
    found["speedup"] = estimates.speedup(
        row["latency_rounds_s"], row["baseline_latency_rounds_s"], row["case_ran_first"]
    )
    found["kernels_share"] = estimates.ratio(
        row["profiled_kernels_rounds_s"], row["profiled_latency_rounds_s"]
    )
    found["parts_ratio"] = _sum_of_parts(row)
    steps = gap.split(gap.by_variant(row["steps"], row["steps_rounds_s"]))
    found |= {number.name: steps.get(number.name) for number in OF_GAP}
    found |= _paces(row, ends_s) | _starts(row["starts_s"], row["baseline_starts_s"])
    calls = row["latency_calls_s"]
    enough = calls is not None and len(calls) >= MIN_CALLS_P95
    found["latency_p95"] = _without_interval(float(np.quantile(calls, 0.95))) if enough else None
    found["profiled_share"] = _profiled_share(row, found)
    # Busy time comes from the profiler, which does not slow the device; latency from the clock,
    # because the profiler slows the host.
    found["busy_share"] = _share(row["device_busy_s"], found["latency"]) if on_cuda(row) else None
    return found


def parts_of(row: StoredRow, scaler: str = "scaler_s") -> tuple[str, ...]:
    """Returns the names of the parts of the row's training step, in order.

    The last part, GradScaler's operations, is left out if the step has no GradScaler: if both the
    row's loss scale and its column named `scaler` are null.
    """
    has_scaler = row["loss_scale"] is not None or row[scaler] is not None
    return STEP_PARTS if has_scaler else STEP_PARTS[:-1]


def on_cuda(row: StoredRow) -> bool:
    """Whether the row ran on a GPU, where host and device work at the same time."""
    return str(row["device"]).startswith("cuda")


def is_smoke(row: StoredRow) -> bool:
    """Whether the budget was a smoke budget, which proves only that the case runs."""
    return bool(row["budget_rank"] == 0)


def pool_free_bytes(row: StoredRow) -> float | None:
    """Returns the bytes of a CUDA graph's memory pool that hold no tensor between calls.

    A replay writes there without the allocator, so the peak of a call does not include these bytes.
    0 without a pool; None if the size of the pool or of its live tensors is unknown.
    """
    pool, live = row["graph_pool_bytes"], row["graph_pool_live_bytes"]
    if pool == 0 or not on_cuda(row):
        return 0.0
    return None if None in (pool, live) else float(pool - live)


def _verdict(row: StoredRow, found: Found) -> Verdict | None:
    verdict, typical, best = (
        estimates.verdict(found["speedup"]), found["pace_typical"], found["pace_fastest"],
    )  # fmt: skip
    if verdict is None or not on_cuda(row) or typical is None or best is None:
        return verdict
    is_slow = typical.value > diagnostics.SLOW_PACE * best.value
    return Verdict.INCONCLUSIVE if is_slow else verdict  # a slow host changes the ratio


def _peak_bytes(row: StoredRow) -> int | None:
    resident, step, pool = row["resident_bytes"], row["step_peak_bytes"], pool_free_bytes(row)
    return None if pool is None or None in (resident, step) else int(resident + step + pool)


def least_work(row: StoredRow) -> Floor | None:
    """Returns the least time of the row's FLOPs and bytes at the measured ceilings, if known."""
    least_bytes, bandwidth = row["least_bytes"], row["ceiling_bytes_per_s"]
    if row["status"] != Status.OK or least_bytes is None or bandwidth is None:
        return None
    # the stored bandwidth was measured with a copy of this size
    ceilings = Ceilings(row["ceiling_flops_per_s"], ((int(least_bytes), bandwidth),))
    return floor(WorkCounts(row["flops"], int(least_bytes)), ceilings)


def differ(estimate: Estimate, other: Estimate) -> bool:
    """Whether the nearest ends of the two intervals are more than TOLERANCE (relative) apart."""
    return _exceeds(estimate, other) or _exceeds(other, estimate)


def _exceeds(estimate: Estimate, other: Estimate) -> bool:
    return ends(estimate)[0] > ends(other)[1] * (1 + TOLERANCE)


def _without_interval(value: float) -> Estimate:
    return Estimate(value, None, None)


def _share(part: float | None, whole: Estimate | None) -> Estimate | None:
    if part is None or whole is None or whole.value <= 0:
        return None
    return _without_interval(part / whole.value)


def _sum_of_parts(row: StoredRow) -> Estimate | None:
    """Returns the sum of a step's parts ÷ the whole step; None if a part is unknown.

    Waiting after each part costs time and prevents overlap with the next part, so the ratio may
    exceed 1.
    """
    parts = [row[f"{name}_rounds_s"] for name in parts_of(row, "scaler_rounds_s")]
    if any(blocks is None for blocks in parts):
        return None
    sums_s = [sum(block) for block in zip(*parts, strict=False)]
    return estimates.ratio(sums_s, row["parts_latency_rounds_s"])


def _paces(row: StoredRow, ends_s: tuple[float, float] | None) -> Found:
    typical = estimates.median_interval(row["pace_rounds_s"])
    known_s = row["best_pace_s"]
    return {
        "pace_typical": typical and _without_interval(typical.value),
        "pace_fastest": ends_s and _without_interval(min(ends_s[0], known_s or ends_s[0])),
        "pace_slowest": ends_s and _without_interval(ends_s[0] / ends_s[1]),
    }


def _starts(case_s: Sequence[float] | None, baseline_s: Sequence[float] | None) -> Found:
    pairs = zip(case_s or (), baseline_s or (), strict=False)
    return {
        "start": estimates.of_processes(case_s, signed=True),
        "start_ratio": estimates.of_processes([case / other for case, other in pairs]),
    }


def _profiled_share(row: StoredRow, found: Found) -> Estimate | None:
    """Returns a call's work by the profiler ÷ its work by the timers (clocks); None if unknown.

    On a CPU both are shares of a call's latency, so the machine's pace cancels: the profiled
    kernels ÷ the latency of unprofiled calls right before and after, and 1 - dispatch_share. On
    CUDA they are the device's busy time and device_s, from different passes.
    """
    if on_cuda(row):
        return _share(row["device_busy_s"], found["device"])
    return quotient(found["kernels_share"], difference(ONE, found["dispatch_share"]))


def own_flags(row: StoredRow, found: Found) -> list[str]:
    """Returns the flags that the row's rounds, timers and counts raise; none for a smoke budget.

    `row` is a result of `at_full_pace`. `found`: its estimates (`all_estimates`).
    """
    if is_smoke(row):
        return []  # a smoke run has no warm-up, so its rounds and clocks are not comparable
    rounds = (row["latency_rounds_s"], row["baseline_latency_rounds_s"], row["case_ran_first"])
    own = (name for name, is_up in RULES.items() if is_up(row, found))
    return [*diagnostics.flags(*rounds), *own]


def _is_contended(row: StoredRow, found: Found) -> bool:
    readings = Contention(**{field.name: row[field.name] for field in fields(Contention)})
    return diagnostics.is_contended(readings, row["gpu_processes"])


def _is_throttled(row: StoredRow, found: Found) -> bool:
    return diagnostics.is_throttled(row["device_clock_hz"], row["throttle_reasons"])


def _does_more_and_more(row: StoredRow, found: Found) -> bool:
    """Whether the calls of the case, and of its baseline if any, take longer round by round."""
    sides = (row["latency_rounds_s"], row["baseline_latency_rounds_s"])
    known = [side for side in sides if side is not None]
    return bool(known) and all(diagnostics.grows(side, row["pace_rounds_s"]) for side in known)


def _has_a_full_queue(row: StoredRow, found: Found) -> bool:
    calls, wanted = row["device_calls"], row["device_calls_wanted"]
    return calls is not None and wanted is not None and bool(calls < wanted)


def _is_not_isolable(row: StoredRow, found: Found) -> bool:
    return found["host"] is not None and on_cuda(row) and found["device"] is None


def _contradicts_itself(row: StoredRow, found: Found) -> bool:
    if found["host"] is None or _is_not_isolable(row, found):
        return False
    return any((_cuda_contradictions if on_cuda(row) else _cpu_contradictions)(row, found))


def _cpu_contradictions(row: StoredRow, found: Found) -> Iterator[bool]:
    """Yields for host and pipelined time whether they contradict the latency of a row on a CPU.

    They should equal it, because nothing is queued there.
    """
    for share in (found["host_share"], found["pipelined_share"]):
        yield share is not None and differ(share, ONE)


def _cuda_contradictions(row: StoredRow, found: Found) -> Iterator[bool]:
    """Yields whether each rule for the clocks of a GPU is broken.

    Pipelined time is the longer of host and device time; the longer one is at most the latency; and
    the latency is at most host, device and synchronise time together. Each clock is a share of the
    latency with its own interval; a rule is broken if no values within the intervals fulfil it.
    """
    host, device, pipelined = (found[f"{name}_share"] for name in ("host", "device", "pipelined"))
    latency = estimates.median_interval(row["clocks_latency_rounds_s"])
    if host is None or device is None or latency is None:
        return
    (host_low, host_high), (device_low, device_high) = ends(host), ends(device)
    slower = Estimate(host_low, max(host_low, device_low), max(host_high, device_high))
    both = host_high + device_high + (row["synchronize_s"] or 0.0) / latency.value
    yield pipelined is not None and differ(pipelined, slower)
    yield _exceeds(slower, ONE)
    yield _exceeds(ONE, Estimate(both, both, both))


def disagrees(row: StoredRow, found: Found) -> bool:
    """Whether the profiler and the timers (clocks) disagree about a call's work on a CPU.

    They do if the whole interval of `profiled_share` is more than PROFILE_TOLERANCE away from 1; an
    estimate without an interval is judged by its value. False if dispatch exceeds MOST_DISPATCH.
    """
    dispatch, share = found["dispatch_share"], _profiled_share(row, found)
    if on_cuda(row) or dispatch is None or share is None:
        return False
    low, high = ends(share)
    beyond = max(low - 1, 1 - high) > PROFILE_TOLERANCE
    return bool(dispatch.value <= MOST_DISPATCH and beyond)


def _beats_the_floor(row: StoredRow, found: Found) -> bool:
    least = least_work(row)
    share = difference(ONE, found["dispatch_share"])
    work = found["device"] if on_cuda(row) else product(found["latency"], share)
    # 0 or less: dispatch leaves no measurable work
    return least is not None and work is not None and 0 < ends(work)[1] < least.seconds


RULES: dict[str, Callable[[StoredRow, Found], bool]] = {
    GROWS: _does_more_and_more,
    "contended": _is_contended,
    "throttled": _is_throttled,
    "queue_full": _has_a_full_queue,
    "not_isolable": _is_not_isolable,
    "broken_invariant": _contradicts_itself,
    "split_disagrees": disagrees,
    "above_ceiling": _beats_the_floor,
}
"""Flag -> whether a row raises it; unknown values raise none.

A new flag is a function and a line here, and a line of `analysis.derive.flags.FLAGS`.
"""
