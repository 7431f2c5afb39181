"""Derived columns: each a function of the table, with its unit and which way is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.load import load
from analysis.rows import latest
from bench import stats

MIN_CALLS_P95 = 100  # five calls beyond the percentile; with fewer it is an outlier's report


@dataclass(frozen=True)
class Metric:
    """A derived column and its entry in the data dictionary."""

    name: str
    function: Callable[[pd.DataFrame], pd.Series]
    unit: str
    better: str  # lower | higher | neither
    doc: str


def derived(study_folder: str | Path) -> pd.DataFrame:
    """What a study says: the row that counts of each case, with every metric."""
    return derive(latest(load(study_folder)))


def derive(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` with every metric of METRICS as a further column; null where unknown."""
    table = rows.assign(
        _latency=_estimate(rows, _latency_of),
        _baseline=_estimate(rows, _baseline_of),
        _ratio=_estimate(rows, _ratio_of),
    )
    for metric in METRICS:
        table[metric.name] = metric.function(table)
    return table.drop(columns=["_latency", "_baseline", "_ratio"])


def _latency_of(case: pd.Series) -> stats.Estimate | None:
    return stats.median_interval(case["latency_rounds_s"])


def _baseline_of(case: pd.Series) -> stats.Estimate | None:
    return stats.median_interval(case["baseline_latency_rounds_s"])


def _ratio_of(case: pd.Series) -> stats.Estimate | None:
    return stats.speedup(case["latency_rounds_s"], case["baseline_latency_rounds_s"])


def _estimate(
    rows: pd.DataFrame, question: Callable[[pd.Series], stats.Estimate | None]
) -> pd.Series:
    """One estimate per row, None where the run did not end ok: its times mean nothing."""
    answers = [question(case) if case["status"] == "ok" else None for _, case in rows.iterrows()]
    return pd.Series(answers, index=rows.index, dtype="object")


def _part(estimates: str, part: str) -> Callable[[pd.DataFrame], pd.Series]:
    """The function that takes `value`, `low` or `high` out of a column of estimates."""

    def take(rows: pd.DataFrame) -> pd.Series:
        parts = [None if answer is None else getattr(answer, part) for answer in rows[estimates]]
        return pd.Series(parts, index=rows.index, dtype="float64")

    return take


def latency_p95_s(rows: pd.DataFrame) -> pd.Series:
    """The latency that one call in twenty exceeds."""

    def percentile(status: str, calls: np.ndarray | None) -> float:
        enough = status == "ok" and calls is not None and len(calls) >= MIN_CALLS_P95
        return float(np.quantile(calls, 0.95)) if enough and calls is not None else np.nan

    values = map(percentile, rows["status"], rows["latency_calls_s"])
    return pd.Series(list(values), index=rows.index, dtype="float64")


def verdict(rows: pd.DataFrame) -> pd.Series:
    """Faster than the baseline, slower, equivalent, or inconclusive?"""
    words = [
        None if budget == "smoke" else stats.verdict(ratio)
        for budget, ratio in zip(rows["budget"], rows["_ratio"], strict=True)
    ]
    return pd.Series(words, index=rows.index, dtype="object")


def mde(rows: pd.DataFrame) -> pd.Series:
    """How small a change could these rounds have shown?"""
    return pd.Series([stats.mde(r) for r in rows["_ratio"]], index=rows.index, dtype="float64")


def break_even_calls(rows: pd.DataFrame) -> pd.Series:
    """After how many calls is the dearer first call paid back?"""
    extra_s = (rows["first_call_s"] - rows["baseline_first_call_s"]).clip(lower=0)
    gain_s = (rows["baseline_latency_s"] - rows["latency_s"]).where(lambda gain: gain > 0)
    judged = rows["verdict"].notna() & (rows["verdict"] != "inconclusive") & extra_s.notna()
    gains = rows["speedup_ci_low"] > 1
    return (extra_s / gain_s).where(gains, np.inf).where(judged).astype("float64")


def rounds(rows: pd.DataFrame) -> pd.Series:
    """How many rounds stand behind the latency?"""
    return pd.Series(
        [None if times is None else len(times) for times in rows["latency_rounds_s"]],
        index=rows.index,
        dtype="float64",
    ).where(rows["status"] == "ok")


# Computed in this order: an entry may use the columns of those above it.
METRICS = (
    Metric("latency_s", _part("_latency", "value"), "s", "lower",
           "median over rounds of the latency a caller sees who waits for each call"),
    Metric("latency_ci_low_s", _part("_latency", "low"), "s", "lower",
           "lower end of the 95 % interval of latency_s within this process; null below 12 rounds"),
    Metric("latency_ci_high_s", _part("_latency", "high"), "s", "lower",
           "upper end of that interval"),
    Metric("latency_p95_s", latency_p95_s, "s", "lower",
           "95th percentile over single calls; null below 100 calls, where fewer than five lie "
           "beyond it"),
    Metric("baseline_latency_s", _part("_baseline", "value"), "s", "neither",
           "median over the same rounds of the baseline's latency"),
    Metric("speedup", _part("_ratio", "value"), "1", "higher",
           "median over rounds of baseline ÷ case, both timed in that round; above 1 is faster"),
    Metric("speedup_ci_low", _part("_ratio", "low"), "1", "higher",
           "lower end of the 95 % interval of speedup; null below 12 rounds"),
    Metric("speedup_ci_high", _part("_ratio", "high"), "1", "higher",
           "upper end of that interval"),
    Metric("verdict", verdict, "", "neither",
           "faster or slower: the interval of speedup lies beyond ±1 %; equivalent: inside; else "
           "inconclusive; null without an interval and for budget=smoke"),
    Metric("mde", mde, "1", "neither",
           "smallest true change (0.02: 2 %) whose interval would have excluded 1 in 80 % of such "
           "runs"),
    Metric("break_even_calls", break_even_calls, "calls", "lower",
           "first call beyond the baseline's (at least 0) ÷ time gained per call; inf where the "
           "interval of speedup does not lie above 1: it never pays; null where unknown or the "
           "verdict is inconclusive"),
    Metric("rounds", rounds, "rounds", "neither", "paired rounds behind latency_s and speedup"),
)  # fmt: skip

# The columns that other programs may rely on, in their order; those that exist are printed.
CONTRACT = (
    "run_id", "case_id", "study", "started_at", "budget", "replicates", "status", "reason",
    "model", "model_args", "shape", "batch", "seq", "phase", "dtype", "mode", "grad", "autocast",
    "compile", "graph", "baseline_mode", "baseline_dtype", "device", "device_name",
    "torch_version", "threads", "compile_cache", "in_effect", "in_effect_note", "latency_s",
    "latency_ci_low_s", "latency_ci_high_s", "latency_p95_s", "host_s", "device_s", "pipelined_s",
    "dispatch_s", "speedup", "speedup_ci_low", "speedup_ci_high", "speedup_same_grad", "verdict",
    "mde", "first_call_s", "break_even_calls", "ops_dispatched", "kernels", "launches",
    "graph_launches", "device_busy_s", "device_idle_fraction", "fusion_gain", "weights_bytes",
    "saved_activation_bytes", "step_peak_bytes", "peak_bytes", "setup_peak_bytes",
    "reserved_bytes", "graph_pool_bytes", "error", "baseline_error", "flops", "roofline_fraction",
    "flags",
)  # fmt: skip
