"""The formulas of derived columns, each a function of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.metrics import first_calls, mode_ratios
from modescope.analysis.rows import bottleneck
from modescope.analysis.rows.identity import OPTIONS
from modescope.analysis.rows.select import SAME_BASELINE, is_plain, per_row, trusted, values_of
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.stats import estimates as stats

Formula = Callable[[pd.DataFrame], pd.Series]

_OF_MODE = (*PLAIN_EAGER, "fullgraph", "compile_options")  # a mode's settings besides grad
_TRUSTED = ("status", "in_effect", "budget_rank", "speedup_ci_low")  # what `trusted` reads


def column(name: str) -> Formula:
    """The formula that returns an existing column."""
    return lambda rows: rows[name]


@dataclass(frozen=True)
class Part:
    """The formula that reads an attribute, such as `low`, of a column of estimates."""

    estimates: str
    attribute: str

    def __call__(self, rows: pd.DataFrame) -> pd.Series:
        """The column; null where there is no estimate."""
        return per_row(rows, self.values(rows[self.estimates]))

    def values(self, estimates: Iterable[Any]) -> list[Any]:
        """The attribute of each estimate; None where there is none."""
        read = attrgetter(self.attribute)
        return [None if one is None else read(one) for one in estimates]


def verdict(rows: pd.DataFrame) -> pd.Series:
    """`faster` than the baseline, `slower`, `equivalent` or `inconclusive`."""
    pairs = zip(rows["budget_rank"], rows["_speedup"], strict=True)
    verdicts = (None if rank == 0 else stats.verdict(ratio) for rank, ratio in pairs)
    return per_row(rows, verdicts, "object")


def mde(rows: pd.DataFrame) -> pd.Series:
    """The smallest change that the rounds of one process can detect."""
    return per_row(rows, map(stats.mde, rows["_speedup"])).where(rows["replicates"] <= 1)


def break_even_calls(rows: pd.DataFrame) -> pd.Series:
    """The number of calls after which the longer first call has paid off.

    The excess of the first call is `first_calls.extra_s`, because both first calls were measured
    only once. Null for the baseline itself, and for a mode that is not in effect.
    """
    needed = ["compile_mode", "graph", "first_call_s", "baseline_first_call_s", "mode", "dtype",
              "baseline_mode", "baseline_dtype", "in_effect"]  # fmt: skip
    cases = phrases.as_rows(rows[needed])
    extra = (first_calls.extra_s(row, row["baseline_first_call_s"]) for row in cases)
    extra_s = per_row(rows, extra)
    replaces = per_row(rows, map(_replaces_the_baseline, cases), "bool")
    gain_s = (rows["latency_s"] * (rows["speedup"] - 1)).where(lambda gain: gain > 0)
    judged = rows["verdict"].notna() & (rows["verdict"] != "inconclusive")
    gains = rows["speedup_ci_low"] > 1
    calls = (extra_s / gain_s).mask(extra_s == 0, 0.0).where(gains, np.inf)
    return calls.where(judged & replaces).astype("float64")


def _replaces_the_baseline(row: phrases.Row) -> bool:
    return not (phrases.is_control(row) or phrases.not_in_effect(row))


def same_grad(rows: pd.DataFrame) -> pd.Series:
    """The gain of the mode beyond its grad axis, as an Estimate for each row.

    The ratio of this row to plain eager with the same grad axis at the baseline's precision; of
    several such rows, to the one with this row's other options. Null for that row itself.
    """
    key = (*SAME_BASELINE, "grad")
    options = (*key, *(name for name in OPTIONS if name not in {*key, *_OF_MODE}))
    needed = {*options, *PLAIN_EAGER, "dtype", *mode_ratios.NEEDED}
    cases = phrases.as_rows(rows[list(needed)])  # by hand: joins by many columns take far longer
    plain = [is_plain(row) and row["dtype"] == row["baseline_dtype"] for row in cases]
    good = set(trusted(rows[[*_TRUSTED, "run_id"]])["run_id"])
    references = (row for row, one in zip(cases, plain, strict=True) if one)
    of_options = {values_of(row, options): row for row in references if row["run_id"] in good}
    of_any = phrases.grouped((values_of(row, key), row) for row in of_options.values())

    def reference(row: phrases.Row) -> phrases.Row | None:
        several = of_any.get(values_of(row, key), [])
        return of_options.get(values_of(row, options), several[0] if len(several) == 1 else None)

    found = (None if one else reference(row) for row, one in zip(cases, plain, strict=True))
    ratios = (mode_ratios.ratio(row, other) if other else None
              for row, other in zip(cases, found, strict=True))  # fmt: skip
    return per_row(rows, ratios, "object")


def bytes_saved(rows: pd.DataFrame) -> pd.Series:
    """The reduction of bytes read and written, from eager's operators to compiled code."""
    saved: pd.Series = rows["eager_bytes"] - rows["bytes_accessed"]
    return saved.where(rows["status"] == "ok").astype("float64")


PAIRED_BY = {"": "speedup", "_ci_low": "speedup_ci_high", "_ci_high": "speedup_ci_low"}


def latency_paired_s(end: str) -> Formula:
    """The formula of the baseline's latency, the median of the group, ÷ the row's speedup.

    `end`: the ending of its name, as in PAIRED_BY. The rows of a group are separate processes, at
    other paces of the machine, so their latencies do not compare as their speedups do. Without a
    baseline it is the latency.
    """

    def formula(rows: pd.DataFrame) -> pd.Series:
        groups = [rows[name] for name in (*SAME_BASELINE, "budget")]
        baseline_s = rows["baseline_latency_s"].groupby(groups, dropna=False).transform("median")
        paired_s: pd.Series = baseline_s / rows[PAIRED_BY[end]]
        return paired_s.where(rows["baseline_mode"].notna(), rows[f"latency{end}_s"])

    return formula


def clock_paired_s(clock: str) -> Formula:
    """The formula of a clock's share of the call, in the time that a call takes."""
    return lambda rows: rows["latency_paired_s"] * rows[f"{clock}_share"]


def launch_s(rows: pd.DataFrame) -> pd.Series:
    """The host's time for a call without dispatch."""
    return _of_latency(rows, rows["host_share"] - rows["dispatch_share"]).where(_on_cuda(rows))


def work_s(rows: pd.DataFrame) -> pd.Series:
    """The time of the work: device time, or on a CPU the latency without dispatch."""
    share = rows["device_share"].where(_on_cuda(rows), 1 - rows["dispatch_share"])
    return _of_latency(rows, share)


def host_wait_s(rows: pd.DataFrame) -> pd.Series:
    """The time in which the host waits for the device within a call."""
    return _of_latency(rows, 1 - rows["host_share"]).where(_on_cuda(rows))


def device_idle_s(rows: pd.DataFrame) -> pd.Series:
    """The time in which the device is idle within a call."""
    return _of_latency(rows, 1 - rows["device_share"]).where(_on_cuda(rows))


def bound_by(rows: pd.DataFrame) -> pd.Series:
    """What determines the time of a call: `overhead` or `work`; `undecided` by the interval."""
    needed = [f"{ratio}_ci_{end}" for ratio in bottleneck.RATIOS for end in ("low", "high")]
    return per_row(rows, map(bottleneck.side, phrases.as_rows(rows[["device", *needed]])), "object")


def parts_residual_s(rows: pd.DataFrame) -> pd.Series:
    """A training step minus the sum of its parts; negative if they take longer."""
    return rows["latency_paired_s"] * (1 - rows["parts_ratio"])


def latency_at_full_pace_s(end: str) -> Formula:
    """The formula of the latency if each round had run at the fastest pace of the environment.

    `end`: value, or low or high of its interval. Null on CUDA: the pace is the host's, and the time
    of a call may be the device's.
    """

    def formula(rows: pd.DataFrame) -> pd.Series:
        latency_s: pd.Series = Part("_paced_latency", end)(rows) * _pace_fastest_s(rows)
        return latency_s.where(~_on_cuda(rows))

    return formula


def pace(rows: pd.DataFrame) -> pd.Series:
    """The machine's typical speed during the row ÷ its best in the row's environment."""
    return _pace_fastest_s(rows) / Part("_pace_typical", "value")(rows)


def _pace_fastest_s(rows: pd.DataFrame) -> pd.Series:
    """The shortest time of the fixed code in any row of the same environment."""
    paces_s = Part("_pace_fastest", "value")(rows)
    return paces_s.groupby(rows["environment_id"]).transform("min")


def _of_latency(rows: pd.DataFrame, share: pd.Series) -> pd.Series:
    """A share of the call in its time, at least 0: the parts of a call then add up to it."""
    return rows["latency_paired_s"] * share.clip(lower=0)


def _on_cuda(rows: pd.DataFrame) -> pd.Series:
    return per_row(rows, map(phrases.on_cuda, phrases.as_rows(rows[["device"]])), "bool")
