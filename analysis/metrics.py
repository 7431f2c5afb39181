"""The metrics, which are the derived columns. A new metric is a function and a line of METRICS.

The function takes the table of cases and returns a column. The table has the columns of all lines
above. The line is also the metric's entry in the data dictionary, which `python -m
analysis.dictionary` generates. A stored column that no metric read before joins `chosen.MEASURED`,
and a metric that other programs may rely on CONTRACT. The table holds no samples of a run: a metric
that needs samples is a number of the summary, a line of `bench.records.summary_columns`. Columns
whose names begin with `_` are there only while metrics are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from modescope.analysis.causes import finding
from modescope.analysis.derive import (
    against,
    chained,
    formulas,
    fusion,
    pace,
    profile,
    raised,
    same_code,
    split,
    steps,
)
from modescope.analysis.derive.combine import combine
from modescope.analysis.derive.formulas import Formula
from modescope.analysis.derive.select import ADDED, are_on_cuda, latest, same_baseline
from modescope.analysis.estimates import highs, lows, values
from modescope.analysis.folders import Folder
from modescope.analysis.load import SHOWN, read
from modescope.bench.records import summary_columns
from modescope.bench.records.columns.column import estimate_columns
from modescope.bench.records.summary_columns import Number
from modescope.bench.summary import STEP_PARTS

ESTIMATE = "Estimate | None"


@dataclass(frozen=True)
class Metric:
    """A derived column and its entry in the data dictionary."""

    name: str
    better: str  # lower | higher | neither
    doc: str
    function: Formula | None = None
    """If None, the metric is the number of this name in the summary of the rows."""
    interval: bool = False
    """Whether `flat` has two more columns, with the ends of the estimate's interval."""
    holds: str = "float | None"  # the type of its values in a row

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `flat` makes of it: itself, or value, low end and high end."""
        return estimate_columns(self.name) if self.interval else (self.name,)


def derived(study_folder: str | Folder) -> pd.DataFrame:
    """Reads a study; returns one row per case and environment, with every metric.

    The columns are those of `--csv`: an estimate is three of them, as `flat` makes them.
    """
    return flat(derive(latest(read(study_folder).table)))


def derive(processes: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per case, with the columns of all METRICS, which are null if unknown.

    `processes` is a result of `select.latest`, with the summaries of `bench.summary`. The replicate
    processes of a case become one row (`combine.combine`). An estimate is a column of Estimate or
    None.
    """
    return public(explain(measure(processes))).copy()  # defragmented


def measure(processes: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of `derive` without EXPLANATIONS, but with columns that these read.

    Of the stored columns `processes` needs only a part (`chosen.MEASURED`).
    """
    stored = combine(processes)
    for metric in CONDITIONS:
        assert metric.function is not None
        stored[metric.name] = metric.function(stored)
    stored["speedup"] = formulas.speedup(stored)
    return _with(stored, [metric for metric in METRICS if metric not in EXPLANATIONS])


def explain(rows: pd.DataFrame) -> pd.DataFrame:
    """Adds EXPLANATIONS to rows of `measure` that have all stored columns.

    The causes are found of those in whose column `_told` is true, if it is there. They need as
    context the rows with which these are compared (`finding.compared_with`).
    """
    return _with(rows, EXPLANATIONS)


def public(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the columns of rows of `measure` or `explain` that are for others than metrics."""
    return rows[[name for name in rows if name in _SHOWN or name in against.COLUMNS]]


def _with(rows: pd.DataFrame, metrics: Sequence[Metric]) -> pd.DataFrame:
    # Space for the columns is made before they are computed: pandas takes longer to add a column
    # than to compute it.
    functions = {metric.name: metric.function for metric in metrics if metric.function}
    table = rows.reindex(columns=[*dict.fromkeys([*rows, *functions])])
    for name, function in functions.items():
        table[name] = function(table)
    return table


def flat(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns derived `rows` for other programs: with numbers in place of each estimate.

    They are its value, its low end and its high end, in the columns that `estimate_columns` names;
    an end is null if it is unknown. `baseline_latency_s` is its value alone.
    """
    columns: dict[str, pd.Series] = {}
    for name in map(str, rows.columns):
        held = rows[name]
        parts = (values(held), lows(held), highs(held)) if name in _ESTIMATES else (held,)
        columns |= dict(zip(exported(name), parts, strict=False))
    return pd.DataFrame(columns, index=rows.index)


def exported(name: str) -> tuple[str, ...]:
    """Returns the columns that `flat` makes of the column `name`."""
    return _ESTIMATES.get(name, (name,))


def _hidden(name: str, function: Formula) -> Metric:
    return Metric(name, "neither", "", function)


_estimate = partial(Metric, interval=True, holds=ESTIMATE)


def _of_summary(numbers: Iterable[Number]) -> Iterator[Metric]:
    """Yields a metric for each number of the summary that a derived table has."""
    for number in numbers:
        if number.in_csv:
            holds = ESTIMATE if number.in_files == 3 else "float | None"
            yield Metric(
                number.column, number.better, number.doc, interval=number.in_csv == 3, holds=holds
            )


# Computed in this order: an entry may use the columns of those above it.
CONDITIONS = (
    _hidden("_on_cuda", are_on_cuda),
    _hidden("_same_baseline", same_baseline),
    _hidden("_best_pace_s", pace.best_pace_s),
    _hidden("_slow", pace.is_slow),
)
"""Metrics that decide whether a row has a speedup, and with which rows it is compared."""

EXPLANATIONS = (
    _hidden("_step", steps.first_steps),
    Metric("measured_cause", "neither",
           "the largest step that explains the gap between eager and the mode, by its name in "
           "step_<name>; other_operators if it also made torch run others; null without one that "
           "is surely larger than steps_control",
           steps.measured_cause, holds="str | None"),
    _estimate("measured_share", "neither",
              "what that step saves as a share of eager's call; negative if it adds",
              steps.measured_share),
    _hidden("_causes", finding.findings_column),
    Metric("cause", "neither",
           "codes of what explains the result, most important first, joined by ;; null if the "
           "columns decide none",
           finding.cause, holds="str | None"),
    Metric("cause_text", "neither",
           "the first of these in a sentence with numbers, and what to do",
           finding.cause_text, holds="str | None"),
)  # fmt: skip
"""Metrics that say why a row is as fast as it is; no other metric reads them."""

METRICS = (
    *CONDITIONS,
    *_of_summary(summary_columns.OF_CALLS),
    _estimate("latency_paired_s", "lower",
              "latency that tables and figures show: on a CPU median of baseline_latency_s over "
              "the rows of the same work, machine, baseline and budget ÷ speedup; on CUDA and "
              "without a baseline latency_s",
              formulas.latency_paired_s),
    _estimate("confirming_speedup", "higher",
              "speedup in a second process, before a sweep recommended this mode or the one above "
              "it"),
    _estimate("speedup_same_grad", "higher",
              "speedup ÷ that of plain eager with the same grad axis, work, machine and baseline, "
              "at the baseline's dtype; null without such a row that can be trusted, and for that "
              "row itself; its interval as that of against_speedup",
              against.same_grad),
    Metric("verdict", "neither",
           "faster or slower: the interval of speedup lies beyond ±1 %; equivalent: inside; else"
           " inconclusive, as on CUDA if the host was slow (slow_pace); null without an interval",
           formulas.verdict, holds="Verdict | None"),
    Metric("link_run_id", "neither",
           "of a mode in tf32 against a mode in tf32: run_id of the row of that mode in tf32 "
           "against the same mode in fp32, which links both; null without one that can be trusted",
           chained.link_run_id, holds="str | None"),
    _estimate("chained_speedup", "higher",
              "speedup × that of the link: over the baseline's mode in fp32, from two processes; "
              "its interval as that of against_speedup",
              chained.chained_speedup),
    Metric("mde", "neither",
           "smallest true change (0.02: 2 %) whose interval would exclude 1 in 80 % of such "
           "runs; null for several processes",
           formulas.mde),
    Metric("break_even_calls", "lower",
           "calls after which the mode pays: what its first call, and a build ahead of time, take "
           "above the baseline's first call ÷ the time gained per call. 0: at once; inf: never; "
           "null if the verdict is inconclusive, the mode not in effect, or nothing is gained "
           "and nothing paid. On CUDA the baseline's first call counts as one of its later calls",
           formulas.break_even_calls),
    *_of_summary(summary_columns.OF_CLOCKS),
    Metric("pace", "neither",
           "speed of the machine in the rounds that count ÷ its best, by a fixed piece of Python "
           "code",
           pace.pace),
    *_of_summary(summary_columns.OF_PACE),
    _estimate("latency_at_full_pace_s", "lower",
              "latency if every round had run at the best pace of rows with this environment_id, "
              "as far as the call slows down like Python code",
              pace.latency_at_full_pace_s),
    _estimate("threads_gain", "higher",
              "latency with the fewest threads of the study ÷ this row's, at full pace if that is "
              "known; null for the fewest threads, and beside other programs (flag contended)",
              pace.threads_gain),
    *_of_summary(summary_columns.OF_STEPS),
    *(
        Metric(f"{clock}_paired_s", "lower",
               f"{clock} time as shown: {clock}_s on CUDA, else latency_paired_s × {clock}_share",
               split.clock_paired_s(clock))
        for clock in ("host", "device", "pipelined", "dispatch", *STEP_PARTS)
    ),
    Metric("launch_s", "lower",
           "host_s - dispatch_s, at least 0: launching, and what an empty batch does not need, "
           "such as a library's choice of a kernel and allocation; null on a CPU",
           split.launch_s),
    Metric("work_s", "lower",
           "device_s, on a CPU latency_paired_s × (1 - dispatch_share), at least 0",
           split.work_s),
    Metric("host_wait_s", "neither",
           "latency_s - host_s, at least 0: the host waits; null on a CPU",
           split.host_wait_s),
    Metric("bound_by", "neither",
           "overhead or work: whether the interval of host_per_device is above or below 1, on a "
           "CPU that of dispatch_share above or below ½; else undecided",
           split.bound_by, holds="str | None"),
    Metric("device_idle_fraction", "neither",
           "share of latency_s without device_busy_s; null on a CPU, and if a flag doubts the "
           "profile",
           profile.device_idle_fraction),
    Metric("residual_s", "neither",
           "work_s × (1 - profiled ÷ clocked work): what the profile does not explain; null if a"
           " flag doubts the profile",
           profile.residual_s),
    _hidden("_fusion", fusion.pairs),
    _estimate("fusion_gain", "higher",
              "work of plain eager with the same grad axis and dtype ÷ this row's, each relative "
              "to its own baseline; null if either row cannot be trusted, and for plain eager, "
              "captured or not. Its interval is the worst case of both rows' intervals",
              fusion.fusion_gain),
    Metric("fusion_speedup", "higher",
           "speedup over that plain eager if only its work changed",
           fusion.fusion_speedup),
    Metric("launch_gain", "higher",
           "speedup_same_grad ÷ fusion_speedup: gain by fewer launches and less dispatch (of plain "
           "eager in a CUDA graph all of it); null at another dtype than the baseline's",
           fusion.launch_gain),
    Metric("bytes_saved", "higher",
           "eager_bytes - bytes_accessed; null if nothing was compiled",
           formulas.bytes_saved),
    Metric("options_changed_code", "neither",
           "whether mode.options changed the code of the first call (code_hash), by the row of the "
           "same mode without them; null if there is none",
           same_code.options_changed_code, holds="bool | None"),
    _hidden("_floor", formulas.floors),
    Metric("floor_s", "neither",
           "least time for flops and least_bytes at the device's ceilings",
           formulas.floor_s),
    Metric("floor_bound", "neither",
           "which of the two sets floor_s: compute or memory",
           formulas.floor_bound, holds="str | None"),
    Metric("roofline_fraction", "higher",
           "floor_s ÷ device_s, on a CPU ÷ work_s; near 1 little is left to gain; low for "
           "pointwise arithmetic, which flops do not count",
           formulas.roofline_fraction),
    Metric("flags", "neither",
           "flags of all processes of the case, and those of comparisons with other rows",
           raised.flags, holds="list[str]"),
    Metric("flags_touch", "neither",
           "what each of these makes doubtful: speedup (or latency), latency, device, split, "
           "roofline or profile",
           raised.flags_touch, holds="list[str]"),
    *_of_summary(summary_columns.OF_GAP),
    *_of_summary(summary_columns.OF_STARTS),
    *EXPLANATIONS,
)  # fmt: skip

DERIVED = tuple(name for metric in METRICS if metric.doc for name in metric.columns)
"""The columns of METRICS that `flat` returns."""

_SHOWN = dict.fromkeys([*SHOWN, *ADDED, *(metric.name for metric in METRICS if metric.doc)])

_ESTIMATES = {
    **{metric.name: metric.columns for metric in METRICS if metric.holds == ESTIMATE},
    "against_speedup": estimate_columns("against_speedup"),
}
"""Column of Estimates -> the columns that `flat` makes of it."""

NAMES = tuple(column for name in _SHOWN for column in exported(name))
"""Every column that `flat` makes of the rows of `derive`."""

# The columns that --csv prints first, in this order: other programs may rely on them. Documents
# promise only that --csv has every column. Yet each name here keeps its place: without it the
# column would move behind ADDED, among the columns in the order in which they are computed.
CONTRACT = (
    "run_id", "case_id", "study", "started_at", "budget", "replicates", "status", "reason", "model",
    "model_args", "model_inputs", "shape", "batch", "seq", "phase", "optimizer", "training",
    "calls", "calls_pad", "compiled_calls", "gave_up_at_call", "eager_calls",
    "dtype", "mode", "grad", "autocast", "compile_mode", "graph", "baseline_mode", "baseline_dtype",
    "device", "device_name", "torch_version", "threads", "compile_cache", "in_effect",
    "in_effect_note", "graph_breaks", "graph_break_reasons", "eager_functions", "latency_s",
    "latency_ci_low_s", "latency_ci_high_s", "latency_paired_s", "latency_p95_s", "host_s",
    "device_s", "pipelined_s", "dispatch_s", "host_share", "host_share_ci_low",
    "host_share_ci_high", "device_share", "device_share_ci_low", "device_share_ci_high",
    "pipelined_share", "pipelined_share_ci_low", "pipelined_share_ci_high", "dispatch_share",
    "dispatch_share_ci_low", "dispatch_share_ci_high", "device_gain", "dispatch_ratio",
    "dispatch_ratio_ci_low", "dispatch_ratio_ci_high", "pace", "pace_slowest",
    "latency_at_full_pace_s", "threads_gain", "threads_gain_ci_low", "threads_gain_ci_high",
    "forward_s", "backward_s", "optimizer_s", "scaler_s", "parts_ratio", "speedup",
    "speedup_ci_low", "speedup_ci_high", "speedup_same_grad", "verdict", "mde", "first_call_s",
    "break_even_calls", "ops_dispatched", "kernels", "launches", "graph_launches", "device_busy_s",
    "device_idle_fraction", "fusion_gain", "weights_bytes", "gradient_bytes",
    "optimizer_state_bytes", "saved_activation_bytes", "step_peak_bytes", "peak_bytes",
    "setup_peak_bytes", "reserved_bytes", "graph_pool_bytes", "error", "error_place",
    "unchecked_outputs", "baseline_error", "checked", "checked_note", "checked_inputs",
    "checked_against", "loss_scale", "overflow_skipped", "flops", "roofline_fraction", "flags",
    "flags_touch", "cause", "cause_text",
)  # fmt: skip
