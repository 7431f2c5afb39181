"""Formulas of derived columns: each takes the table of rows and returns a column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from modescope.analysis.derive.select import codes, per_row
from modescope.analysis.estimates import lows, point, values
from modescope.analysis.format import phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.outcomes import Status
from modescope.bench.stats import estimates as stats
from modescope.bench.stats.estimates import Verdict
from modescope.bench.summary import least_work

Formula = Callable[[pd.DataFrame], pd.Series]

# Each first call is measured once, and depends on other load of the machine: less than a factor of
# two, or less than 0.1 s, counts as no difference.
FACTOR, SECONDS = 2.0, 0.1


def speedup(rows: pd.DataFrame) -> pd.Series:
    """Returns the Estimate of each row's speedup; None on CUDA if the host was slow.

    A slow host lengthens what waits for it and not what the device does, so it changes the ratio.
    """
    is_told = ~(rows["_slow"] & rows["_on_cuda"])
    told = (ratio if holds else None for ratio, holds in zip(rows["speedup"], is_told, strict=True))
    return per_row(rows, told, "object")


def verdict(rows: pd.DataFrame) -> pd.Series:
    """Returns whether each row is faster than its baseline.

    The verdict is a value of Verdict; None for a smoke budget, and without an interval. It is
    inconclusive on CUDA if the host was slow, so that there is none.
    """
    pairs = zip(rows["budget_rank"], rows["speedup"], strict=True)
    verdicts = per_row(
        rows, (None if rank == 0 else stats.verdict(ratio) for rank, ratio in pairs), "object"
    )
    compared = rows["baseline_latency_s"].notna() & (rows["budget_rank"] > 0)
    is_hidden = rows["_slow"] & rows["_on_cuda"] & compared
    told = zip(verdicts, is_hidden, strict=True)
    return per_row(
        rows, (Verdict.INCONCLUSIVE if hidden else verdict for verdict, hidden in told), "object"
    )


def mde(rows: pd.DataFrame) -> pd.Series:
    """Returns the smallest change of the speedup that one process can detect, such as 0.02 for 2 %.

    Null for a row that combines several processes.
    """
    return per_row(rows, map(stats.mde, rows["speedup"])).where(rows["replicates"] <= 1)


def break_even_calls(rows: pd.DataFrame) -> pd.Series:
    """Returns the number of calls after which a longer first call has paid off; infinite if never.

    What is built ahead of time in another process counts as part of the first call.

    `extra_s` says how much longer the first call takes. Null for the baseline itself, for a mode
    that is not in effect, if the verdict is missing or inconclusive, and for a mode that is as fast
    as the baseline and whose first call takes no longer.
    """
    needed = ["compile_mode", "graph", "first_call_s", "baseline_first_call_s", "mode", "dtype",
              "baseline_mode", "baseline_dtype", "in_effect", "calls", "device",
              "baseline_latency_s", "package_export_s", "package_build_s", "fill_s"]  # fmt: skip
    judged = rows["verdict"].notna() & (rows["verdict"] != Verdict.INCONCLUSIVE)
    index, rows = rows.index, rows.loc[judged, [*needed, "latency_s", "speedup", "verdict"]]
    cases = as_rows(rows[needed])
    more_s = per_row(rows, (extra_s(row, baseline_first_s(row)) for row in cases))
    same = (predicates.is_control(row) or predicates.not_in_effect(row) for row in cases)
    replaces = ~per_row(rows, same, "bool")
    gain_s = values(rows["latency_s"]) * (values(rows["speedup"]) - 1)
    gains = lows(rows["speedup"]) > 1
    count = per_row(rows, map(predicates.calls_of_a_step, cases))
    calls = (count * more_s / gain_s.where(gain_s > 0)).mask(more_s == 0, 0.0).where(gains, np.inf)
    is_nothing = (rows["verdict"] == Verdict.EQUIVALENT) & (more_s == 0)
    return calls.where(replaces & ~is_nothing).reindex(index).astype("float64")


def builds(row: Row) -> bool:
    """Whether the first call compiles or captures something for later calls."""
    return bool(row["compile_mode"] != "none" or row["graph"])


def baseline_first_s(row: Row) -> float | None:
    """Returns the time of the baseline's first call with which that of `row` is compared.

    On CUDA it is at most that of a later call: the first use of a library in a process takes tens
    of milliseconds, and whichever of the two modes uses it first has them in its first call.
    """
    first_s, call_s = row["baseline_first_call_s"], point(row["baseline_latency_s"])
    if first_s is None or call_s is None or not predicates.on_cuda(row):
        return first_s
    return min(first_s, call_s)


def extra_s(row: Row, baseline_s: float | None) -> float | None:
    """Returns how many seconds longer the first call takes than the baseline's; at least 0.

    What is built ahead of time in another process counts as part of the row's first call.

    It is 0 for a mode that builds nothing, as any difference is then the machine's. But if such a
    mode's first call exceeds both FACTOR × the baseline's and the baseline's + SECONDS, one reading
    cannot tell the mode from the machine, and the result is None. None also if a time is unknown.
    """
    first_s = phrases.setup_s(row)
    if first_s is None or baseline_s is None:
        return None
    extra = max(0.0, float(first_s) - float(baseline_s))
    if builds(row):
        return extra
    return 0.0 if first_s <= max(FACTOR * baseline_s, baseline_s + SECONDS) else None


def bytes_saved(rows: pd.DataFrame) -> pd.Series:
    """Returns how many fewer bytes compiled code moves than eager's operators (negative: more)."""
    saved: pd.Series = rows["eager_bytes"] - rows["bytes_accessed"]
    return saved.where(rows["status"] == Status.OK).astype("float64")


def latency_paired_s(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row on a CPU an Estimate of its baseline's latency ÷ its speedup.

    The baseline's latency is the median over the rows with the same work, baseline and budget.
    These rows ran in separate processes, at different speeds of the machine, so their own latencies
    compare less well than their speedups. A row on CUDA keeps its own latency, because a GPU does
    not slow down with its host; so does a row whose baseline was not timed.
    """
    baseline_s = values(rows["baseline_latency_s"])
    typical_s = baseline_s.groupby(codes(rows, ("_same_baseline", "budget"))).transform("median")
    is_scaled = baseline_s.notna() & ~rows["_on_cuda"]
    every = zip(is_scaled, typical_s, rows["speedup"], rows["latency_s"], strict=True)
    paired = (
        stats.quotient(stats.exactly(seconds), speedup) if scaled else latency
        for scaled, seconds, speedup, latency in every
    )
    return per_row(rows, paired, "object")


def floors(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row the least work that it can be (`stats.roofline.Floor`), or None."""
    needed = ["status", "least_bytes", "flops", "ceiling_bytes_per_s", "ceiling_flops_per_s"]
    return per_row(rows, map(least_work, as_rows(rows[needed])), "object")


def floor_s(rows: pd.DataFrame) -> pd.Series:
    """Returns the least time that each row's work can take on its device, in any mode.

    It follows from the counted work and the measured ceilings, the highest rates that large probes
    reached. Work whose data stays in a cache can take less (flag `above_ceiling`).
    """
    return per_row(rows, (least and least.seconds for least in rows["_floor"]))


def floor_bound(rows: pd.DataFrame) -> pd.Series:
    """Returns which ceiling sets `floor_s`: `compute` (arithmetic) or `memory` (bandwidth)."""
    return per_row(rows, (least and least.bound for least in rows["_floor"]), "object")


def roofline_fraction(rows: pd.DataFrame) -> pd.Series:
    """Returns `floor_s` ÷ the time of the work: `device_s` on CUDA, `work_s` on a CPU."""
    work_s = values(rows["device_s"]).where(rows["_on_cuda"], rows["work_s"])
    fraction: pd.Series = rows["floor_s"] / work_s.where(work_s > 0)
    return fraction
