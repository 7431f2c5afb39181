"""How the derived columns are worked out: each a function of the table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis import bounds, first_calls, words
from analysis.identity import OPTIONS
from analysis.rows import SECTION, trusted
from bench import stats

Formula = Callable[[pd.DataFrame], pd.Series]

_OF_MODE = ("autocast", "compile", "graph", "fullgraph")  # what a mode adds to its grad axis
# Two speedups are comparable where their baselines are the same work on the same machine.
_SAME_BASELINE = [*SECTION, "baseline_mode", "baseline_dtype"]


def column(name: str) -> Formula:
    """The formula that is a column worked out before."""
    return lambda rows: rows[name]


def part(estimates: str, attribute: str) -> Formula:
    """The formula that takes `value`, `low` or `high` out of a column of estimates."""

    def take(rows: pd.DataFrame) -> pd.Series:
        parts = [
            None if answer is None else getattr(answer, attribute) for answer in rows[estimates]
        ]
        return pd.Series(parts, index=rows.index, dtype="float64")

    return take


def verdict(rows: pd.DataFrame) -> pd.Series:
    """Faster than the baseline, slower, equivalent, or inconclusive?"""
    told = [
        None if rank == 0 else stats.verdict(ratio)
        for rank, ratio in zip(rows["budget_rank"], rows["_ratio"], strict=True)
    ]
    return pd.Series(told, index=rows.index, dtype="object")


def mde(rows: pd.DataFrame) -> pd.Series:
    """How small a change could the rounds of one process have shown?"""
    told = pd.Series([stats.mde(r) for r in rows["_ratio"]], index=rows.index, dtype="float64")
    return told.where(rows["replicates"] <= 1)


def break_even_calls(rows: pd.DataFrame) -> pd.Series:
    """After how many calls is the dearer first call paid back?

    The first calls of both were read once each, so only what a mode compiles or captures, or what
    is far beyond chance, is held to be dearer (`first_calls.extra_s`). Null for the baseline
    itself, which replaces nothing.
    """
    needed = ["compile", "graph", "first_call_s", "baseline_first_call_s", "mode", "dtype",
              "baseline_mode", "baseline_dtype"]  # fmt: skip
    told = words.as_rows(rows[needed])
    extra = [first_calls.extra_s(row, row["baseline_first_call_s"]) for row in told]
    extra_s = pd.Series(extra, index=rows.index, dtype="float64")
    replaces = pd.Series([not words.is_control(row) for row in told], rows.index, dtype="bool")
    gain_s = (rows["baseline_latency_s"] - rows["latency_s"]).where(lambda gain: gain > 0)
    judged = rows["verdict"].notna() & (rows["verdict"] != "inconclusive")
    gains = rows["speedup_ci_low"] > 1
    calls = (extra_s / gain_s).mask(extra_s == 0, 0.0).where(gains, np.inf)
    return calls.where(judged & replaces).astype("float64")


def speedup_same_grad(rows: pd.DataFrame) -> pd.Series:
    """What does the mode gain beyond its grad axis?

    The ratio of two paired speedups over the same baseline: this row's and that of plain eager
    with the same grad axis at the baseline's precision. Of several such rows, which differ in
    another option, the one with this row's options counts. Null for that row itself.
    """
    plain = (rows["compile"] == "none") & ~rows["graph"] & ~rows["autocast"]
    is_reference = plain & (rows["dtype"] == rows["baseline_dtype"])
    key = [*_SAME_BASELINE, "grad"]
    options = [*key, *(name for name in OPTIONS if name not in {*key, *_OF_MODE})]
    reference = trusted(rows[is_reference]).drop_duplicates(options, keep="last")
    found = _speedups(rows, reference, options)
    found = found.fillna(_speedups(rows, reference.drop_duplicates(key, keep=False), key))
    beyond: pd.Series = rows["speedup"] / found
    return beyond.mask(is_reference)


def _speedups(rows: pd.DataFrame, reference: pd.DataFrame, by: list[str]) -> pd.Series:
    """For each row the speedup of the one in `reference` that is equal in the columns `by`."""
    found = rows[by].merge(reference[[*by, "speedup"]], how="left", on=by)["speedup"]
    return pd.Series(found.to_numpy(dtype="float64"), rows.index)


def bytes_saved(rows: pd.DataFrame) -> pd.Series:
    """How much less does compiled code read and write than the operators of eager?"""
    saved: pd.Series = rows["eager_bytes"] - rows["bytes_accessed"]
    return saved.where(rows["status"] == "ok").astype("float64")


def launch_s(rows: pd.DataFrame) -> pd.Series:
    """What does the host spend on a call beyond dispatch?"""
    return (rows["host_s"] - rows["dispatch_s"]).clip(lower=0).where(_on_cuda(rows))


def work_s(rows: pd.DataFrame) -> pd.Series:
    """How long is the work itself?"""
    beyond_dispatch = (rows["latency_s"] - rows["dispatch_s"]).clip(lower=0)
    return rows["device_s"].where(_on_cuda(rows), beyond_dispatch)


def host_wait_s(rows: pd.DataFrame) -> pd.Series:
    """How long does the host wait for the device within a call?"""
    return (rows["latency_s"] - rows["host_s"]).clip(lower=0).where(_on_cuda(rows))


def device_idle_s(rows: pd.DataFrame) -> pd.Series:
    """How long has the device nothing to do within a call?"""
    return (rows["latency_s"] - rows["device_s"]).clip(lower=0).where(_on_cuda(rows))


def bound_by(rows: pd.DataFrame) -> pd.Series:
    """What would have to shrink for a call to be shorter: overhead or work?"""
    clocks = [f"{clock}_ci_{end}_s" for clock in bounds.CLOCKS for end in ("low", "high")]
    told = [bounds.side(row) for row in words.as_rows(rows[["device", *clocks]])]
    return pd.Series(told, index=rows.index, dtype="object")


def _on_cuda(rows: pd.DataFrame) -> pd.Series:
    told = [words.on_cuda(row) for row in words.as_rows(rows[["device"]])]
    return pd.Series(told, index=rows.index, dtype="bool")
