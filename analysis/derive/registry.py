"""The metrics, which are the derived columns. A new metric is a function and a line of METRICS.

The function takes the table of cases and returns a column. The table has the columns of all lines
above. The line is also the metric's entry in the data dictionary, which `python -m
analysis.dictionary` generates. A metric that other programs may rely on also joins CONTRACT. The
table holds no samples of a run: a metric that needs samples is an estimate of `bench.summary`, and
its line here has no function. While metrics are computed, the columns whose names begin with `_`
hold the Estimates of the summary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import pandas as pd

from modescope.analysis.causes import finding
from modescope.analysis.derive import (
    against,
    chained,
    flags,
    formulas,
    fusion,
    pace,
    profile,
    same_code,
    split,
)
from modescope.analysis.derive.formulas import Formula
from modescope.analysis.derive.select import are_on_cuda, combine, latest
from modescope.analysis.load import Folder, read
from modescope.bench.records.columns import estimate_columns
from modescope.bench.stats.estimates import Estimate
from modescope.bench.summary import STEP_PARTS


@dataclass(frozen=True)
class Metric:
    """A derived column and its entry in the data dictionary."""

    name: str
    better: str  # lower | higher | neither
    doc: str
    function: Formula | None = None
    """If None, the metric is the estimate of this name in the summary of the rows."""
    interval: bool = False
    """Whether two more columns hold the interval. The function then returns Estimates."""
    holds: str = "float | None"  # the type of its values in a row

    @property
    def columns(self) -> tuple[str, ...]:
        """The metric's column; with an interval, the columns of its value, low end and high end."""
        return estimate_columns(self.name) if self.interval else (self.name,)


def derived(study_folder: str | Folder) -> pd.DataFrame:
    """Reads a study; returns one row per case and environment, with every metric."""
    return derive(latest(read(study_folder).table))


def derive(processes: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per case, with the columns of all METRICS, which are null if unknown.

    `processes` is a result of `select.latest`, with the estimates of `bench.summary`. The replicate
    processes of a case become one row (`select.combine`).
    """
    stored = combine(processes)
    for metric in CONDITIONS:
        assert metric.function is not None
        stored[metric.name] = metric.function(stored)
    stored["_speedup"] = formulas.speedup(stored)
    # The estimates of a summary are split at once, and space for the other columns is made before
    # they are computed: pandas takes longer to add a column than to compute it.
    summarised = [metric for metric in METRICS if metric.function is None]
    values = {
        column: each
        for metric in summarised
        for column, each in _split(metric, stored[f"_{metric.name.removesuffix('_s')}"]).items()
    }
    known = pd.DataFrame(values, index=stored.index, dtype="float64")
    names = dict.fromkeys([*stored, *(name for metric in METRICS for name in metric.columns)])
    table = pd.concat([stored, known], axis="columns").reindex(columns=list(names))
    for metric in METRICS:
        if metric.function is not None:
            found = metric.function(table)
            parts = _split(metric, found) if metric.interval else {metric.name: found}
            for column, part in parts.items():
                table[column] = part
    return table[[name for name in names if not name.startswith("_")]].copy()  # defragmented


def _split(metric: Metric, estimates: Iterable[Estimate | None]) -> dict[str, list[float | None]]:
    parts = [(None,) * 3 if one is None else (one.value, one.low, one.high) for one in estimates]
    return {name: [part[at] for part in parts] for at, name in enumerate(metric.columns)}


def _hidden(name: str, function: Formula) -> Metric:
    return Metric(name, "neither", "", function)


_estimate = partial(Metric, interval=True)

# Computed in this order: an entry may use the columns of those above it.
CONDITIONS = (
    _hidden("_on_cuda", are_on_cuda),
    _hidden("_best_pace_s", pace.best_pace_s),
    _hidden("_slow", pace.is_slow),
)
"""Metrics that decide whether a row has a speedup."""

METRICS = (
    *CONDITIONS,
    _estimate("latency_s", "lower", "a call for a caller who waits for it"),
    Metric("latency_p95_s", "lower", "95th percentile of single calls; null below 100 calls"),
    Metric("baseline_latency_s", "neither", "the baseline's latency over the same rounds"),
    _estimate("speedup", "higher",
              "baseline ÷ case, both timed in a round; above 1 is faster; null on CUDA if the host "
              "was slow (slow_pace), which changes it"),
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
           formulas.verdict, holds="str | None"),
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
           "calls after which the mode pays: what its first call takes above the baseline's ÷ "
           "the time gained per call. 0: at once; inf: never; null if the verdict is "
           "inconclusive, the mode not in effect, or nothing is gained and nothing paid. On CUDA "
           "the baseline's first call counts as one of its later calls",
           formulas.break_even_calls),
    _estimate("host_s", "lower", "how long the host is busy issuing a call"),
    _estimate("device_s", "lower",
              "device time of a call, launches queued ahead; null on a CPU"),
    _estimate("pipelined_s", "lower",
              "time per further call if calls follow each other without waiting"),
    _estimate("dispatch_s", "lower",
              "the same call on an empty batch: Python, dispatcher, autograd, guards, allocation"),
    _estimate("host_share", "neither", "host ÷ latency in the same round; about 1 on a CPU"),
    _estimate("device_share", "neither", "device time ÷ latency; null on a CPU"),
    _estimate("pipelined_share", "neither",
              "pipelined time ÷ latency; on CUDA the larger of host_share and device_share"),
    _estimate("dispatch_share", "neither", "dispatch ÷ latency"),
    _estimate("host_per_device", "neither", "host ÷ device time; null on a CPU"),
    _estimate("device_gain", "higher",
              "the baseline's device time ÷ this row's; null on a CPU"),
    _estimate("dispatch_ratio", "higher",
              "the baseline's dispatch ÷ this row's; compiled code has only guards and wrapper"),
    Metric("pace", "neither",
           "speed of the machine in the rounds that count ÷ its best, by a fixed piece of Python "
           "code",
           pace.pace),
    Metric("pace_slowest", "neither",
           "speed in the slowest rounds ÷ speed in the fastest (5th and 95th percentile)"),
    _estimate("latency_at_full_pace_s", "lower",
              "latency if every round had run at the best pace of rows with this environment_id, "
              "as far as the call slows down like Python code",
              pace.latency_at_full_pace_s),
    _estimate("threads_gain", "higher",
              "latency with the fewest threads of the study ÷ this row's, at full pace if that is "
              "known; null for the fewest threads, and beside other programs (flag contended)",
              pace.threads_gain),
    _estimate("forward_s", "lower",
              "forward and loss of a training step, in a pass that waits after each part"),
    _estimate("backward_s", "lower", "backward, likewise"),
    _estimate("optimizer_s", "lower", "the optimizer's step and dropping the gradients"),
    _estimate("scaler_s", "lower", "GradScaler's operations; null without one"),
    _estimate("forward_share", "neither",
              "forward and loss ÷ the whole step in the same block"),
    _estimate("backward_share", "neither", "the same for backward"),
    _estimate("optimizer_share", "neither", "the same for the optimizer"),
    _estimate("scaler_share", "neither", "the same for GradScaler"),
    _estimate("parts_ratio", "neither",
              "sum of the parts ÷ the whole step; above 1 because each part is waited for"),
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
           flags.flags, holds="list[str]"),
    Metric("flags_touch", "neither",
           "what each of these makes doubtful: speedup (or latency), latency, device, split, "
           "roofline or profile",
           flags.flags_touch, holds="list[str]"),
    _hidden("_causes", finding.findings_column),
    Metric("cause", "neither",
           "codes of what explains the result, most important first, joined by ;; null if the "
           "columns decide none",
           finding.cause, holds="str | None"),
    Metric("cause_text", "neither",
           "the first of these in a sentence with numbers, and what to do",
           finding.cause_text, holds="str | None"),
)  # fmt: skip

DERIVED = tuple(name for metric in METRICS if metric.doc for name in metric.columns)
"""The columns of METRICS that `derive` returns."""

# Columns that other programs may rely on, in the order in which --csv prints them.
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
