"""The metrics, which are the derived columns. A new one is a function and a line of METRICS.

The function takes the table of cases, which has the columns of the lines above its own, and returns
a column. The line is also the metric's entry in the data dictionary, which `python -m
analysis.dictionary` generates. A metric that other programs may rely on also joins CONTRACT. The
table holds no samples of a run: a metric that needs them is an estimate of `bench.summary`, and
here a line with `Part("_name", "value")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pandas as pd

from modescope.analysis.causes import finding
from modescope.analysis.derive import (
    against,
    flags,
    formulas,
    fusion,
    memory,
    pace,
    profile,
    split,
)
from modescope.analysis.derive.formulas import Formula, Part, column
from modescope.analysis.derive.replicates import ESTIMATES, combine
from modescope.analysis.derive.select import are_on_cuda, latest
from modescope.analysis.load import Folder, read
from modescope.bench.summary import STEP_PARTS


@dataclass(frozen=True)
class Metric:
    """A derived column and its entry in the data dictionary."""

    name: str
    function: Formula
    unit: str
    better: str  # lower | higher | neither
    doc: str = ""  # empty for the ends of an interval


# Columns that several metrics read, each computed before the first of them.
_SHARED: dict[str, tuple[str, Formula]] = {
    "latency_paired_s": ("_group_baseline_s", formulas.group_baseline_s),
    "pace": ("_best_pace_s", pace.best_pace_s),
    "latency_at_full_pace_s": ("_on_cuda", are_on_cuda),
    "speedup_same_grad": ("_same_grad", against.same_grad),
    "fusion_gain": ("_fusion", fusion.fusion),
    "threads_gain": ("_threads_gain", pace.thread_gains),
    "cause": ("_causes", finding.findings_column),
}


def derived(study_folder: str | Folder) -> pd.DataFrame:
    """One row per case and environment of a study, with every metric."""
    return derive(latest(read(study_folder).table))


def derive(processes: pd.DataFrame) -> pd.DataFrame:
    """One row per case, with a column for each of METRICS, which is null where unknown.

    `processes` are the rows of `select.latest`, out of `load.read`, so they have the estimates of
    `bench.summary`. The replicate processes of a case become one row (`replicates.combine`).
    """
    stored = combine(processes)
    parts = _parts(stored)
    shared = (name for name, _ in _SHARED.values())
    names = dict.fromkeys([*stored, *(metric.name for metric in METRICS), *shared])
    table = pd.concat([stored, parts], axis="columns").reindex(columns=list(names))
    for metric in METRICS:
        if metric.name in _SHARED:
            name, function = _SHARED[metric.name]
            table[name] = function(table)
        if metric.name not in parts:
            table[metric.name] = metric.function(table)
    return table[[name for name in names if not name.startswith("_")]].copy()  # defragmented


def _parts(table: pd.DataFrame) -> pd.DataFrame:
    """A table of the metrics that are a Part of a stored estimate, which most metrics are.

    They are made at once because pandas takes longer to add a column than to compute it.
    """
    lists = {name: table[name].tolist() for name in ESTIMATES}
    found = {
        metric.name: metric.function.values(lists[metric.function.estimates])
        for metric in METRICS
        if isinstance(metric.function, Part) and metric.function.estimates in lists
    }
    return pd.DataFrame(found, index=table.index, dtype="float64")


def _triple(
    name: str, better: str, doc: str, formula: Callable[[str], Formula] | None = None
) -> tuple[Metric, ...]:
    """Three metrics: an estimate and the two ends of its interval.

    `formula` takes `value`, `low` or `high` and returns the formula of that metric. By default it
    reads the estimate of the same name in the row's summary.
    """
    stem, unit = name.removesuffix("_s"), "s" if name.endswith("_s") else "1"
    ending = name.removeprefix(stem)
    part = formula or partial(Part, f"_{stem}")
    return (
        Metric(name, part("value"), unit, better, doc),
        Metric(f"{stem}_ci_low{ending}", part("low"), unit, better),
        Metric(f"{stem}_ci_high{ending}", part("high"), unit, better),
    )


def _clock(name: str, doc: str) -> tuple[Metric, ...]:
    return _triple(f"{name}_s", "lower", doc)


# Computed in this order: an entry may use the columns of those above it.
METRICS = (
    *_clock("latency", "a call for a caller who waits for it"),
    Metric("latency_p95_s", Part("_latency_p95", "value"), "s", "lower",
           "95th percentile of single calls; null below 100 calls"),
    Metric("baseline_latency_s", Part("_baseline_latency", "value"), "s", "neither",
           "the baseline's latency over the same rounds"),
    *_triple("speedup", "higher",
             "baseline ÷ case, both timed in a round; above 1 is faster"),
    Metric("latency_paired_s", formulas.latency_paired_s(""), "s", "lower",
           "latency that tables and figures show: median of baseline_latency_s over the rows of "
           "the same work, machine, baseline and budget ÷ speedup; latency_s without a baseline"),
    Metric("latency_paired_ci_low_s", formulas.latency_paired_s("_ci_low"), "s", "lower"),
    Metric("latency_paired_ci_high_s", formulas.latency_paired_s("_ci_high"), "s", "lower"),
    Metric("confirming_speedup", column("confirming_speedup"), "1", "higher",
           "speedup in a second process, before a sweep recommended this mode or the one above "
           "it"),
    Metric("confirming_speedup_ci_low", column("confirming_speedup_ci_low"), "1", "higher"),
    Metric("confirming_speedup_ci_high", column("confirming_speedup_ci_high"), "1", "higher"),
    Metric("speedup_process_spread", column("_speedup_spread"), "1", "lower",
           "relative standard deviation of speedup between replicates; null below two"),
    Metric("latency_process_spread", column("_latency_spread"), "1", "lower",
           "the same for latency_s"),
    Metric("speedup_same_grad", Part("_same_grad", "value"), "1", "higher",
           "speedup ÷ that of plain eager with the same grad axis, work, machine and baseline, "
           "at the baseline's dtype; null without such a row that can be trusted, and for that "
           "row itself; its interval as that of against_speedup"),
    Metric("speedup_same_grad_ci_low", Part("_same_grad", "low"), "1", "higher"),
    Metric("speedup_same_grad_ci_high", Part("_same_grad", "high"), "1", "higher"),
    Metric("verdict", formulas.verdict, "", "neither",
           "faster or slower: the interval of speedup lies beyond ±1 %; equivalent: inside; else"
           " inconclusive; null without an interval"),
    Metric("mde", formulas.mde, "1", "neither",
           "smallest true change (0.02: 2 %) whose interval would exclude 1 in 80 % of such "
           "runs; null for several processes"),
    Metric("break_even_calls", formulas.break_even_calls, "calls", "lower",
           "calls after which the mode pays: what its first call takes above the baseline's ÷ "
           "the time gained per call. 0: at once; inf: never; null if the verdict is "
           "inconclusive or the mode not in effect"),
    Metric("rounds", column("_rounds"), "rounds", "neither",
           "paired rounds behind latency_s and speedup, of the process with the fewest"),
    *_clock("host", "how long the host is busy issuing a call"),
    *_clock("device", "device time of a call, launches queued ahead; null on a CPU"),
    *_clock("pipelined", "time per further call if calls follow each other without waiting"),
    *_clock("dispatch",
           "the same call on an empty batch: Python, dispatcher, autograd, guards, allocation"),
    *_triple("host_share", "neither",
             "host ÷ latency in the same round; about 1 on a CPU"),
    *_triple("device_share", "neither", "device time ÷ latency; null on a CPU"),
    *_triple("pipelined_share", "neither",
             "pipelined time ÷ latency; on CUDA the larger of host_share and device_share"),
    *_triple("dispatch_share", "neither", "dispatch ÷ latency"),
    *_triple("host_per_device", "neither",
             "host ÷ device time; null on a CPU"),
    *_triple("device_gain", "higher",
             "the baseline's device time ÷ this row's; null on a CPU"),
    *_triple("dispatch_ratio", "higher",
             "the baseline's dispatch ÷ this row's; compiled code has only guards and wrapper"),
    Metric("pace", pace.pace, "1", "neither",
           "speed of the machine during the row ÷ its best, by a fixed piece of Python code"),
    Metric("pace_slowest", Part("_pace_slowest", "value"), "1", "neither",
           "speed in the slowest rounds ÷ speed in the fastest (5th and 95th percentile). Times "
           "depend on it, ratios within rounds do not"),
    *_triple("latency_at_full_pace_s", "lower",
             "latency if every round had run at the best pace of rows with this environment_id, as"
           " far as the call slows down like Python code",
             formula=pace.latency_at_full_pace_s),
    *_triple("threads_gain", "higher",
             "latency with the fewest threads of the study ÷ this row's, at full pace if that is "
           "known; null for the fewest threads, and beside other programs (flag contended)"),
    *_clock("forward",
           "forward and loss of a training step, in a pass that waits after each part"),
    *_clock("backward", "backward, likewise"),
    *_clock("optimizer", "the optimizer's step and dropping the gradients"),
    *_clock("scaler", "GradScaler's operations; null without one"),
    *_triple("forward_share", "neither",
             "forward and loss ÷ the whole step in the same block"),
    *_triple("backward_share", "neither", "the same for backward"),
    *_triple("optimizer_share", "neither",
             "the same for the optimizer"),
    *_triple("scaler_share", "neither", "the same for GradScaler"),
    *_triple("parts_ratio", "neither",
             "sum of the parts ÷ the whole step; above 1 because each part is waited for"),
    *(
        Metric(f"{clock}_paired_s", split.clock_paired_s(clock), "s", "lower",
               f"latency_paired_s × {clock}_share, as shown")
        for clock in ("host", "device", "pipelined", "dispatch", *STEP_PARTS)
    ),
    Metric("launch_s", split.launch_s, "s", "lower",
           "latency_paired_s × (host_share - dispatch_share), at least 0; null on a CPU"),
    Metric("work_s", split.work_s, "s", "lower",
           "latency_paired_s × device_share, on a CPU × (1 - dispatch_share), at least 0"),
    Metric("host_wait_s", split.host_wait_s, "s", "neither",
           "latency_paired_s × (1 - host_share), at least 0: the host waits; null on a CPU"),
    Metric("bound_by", split.bound_by, "", "neither",
           "overhead or work: whether the interval of host_per_device is above or below 1, on a "
           "CPU that of dispatch_share above or below ½; else undecided"),
    Metric("device_idle_fraction", profile.device_idle_fraction, "1", "neither",
           "share of latency_s without device_busy_s; null on a CPU, and if a flag doubts the "
           "profile"),
    Metric("residual_s", profile.residual_s, "s", "neither",
           "work_s × (1 - profiled ÷ clocked work): what the profile does not explain; null if a"
           " flag doubts the profile"),
    Metric("fusion_gain", Part("_fusion", "gain.value"), "1", "higher",
           "work of plain eager with the same grad axis and dtype ÷ this row's, each relative to "
           "its own baseline; null if either row cannot be trusted, and for plain eager. Its "
           "interval is the worst case of both rows' intervals"),
    Metric("fusion_gain_ci_low", Part("_fusion", "gain.low"), "1", "higher"),
    Metric("fusion_gain_ci_high", Part("_fusion", "gain.high"), "1", "higher"),
    Metric("fusion_speedup", Part("_fusion", "speedup"), "1", "higher",
           "speedup over that plain eager if only its work changed"),
    Metric("launch_gain", fusion.launch_gain, "1", "higher",
           "speedup_same_grad ÷ fusion_speedup: gain by fewer launches and less dispatch; null "
           "at another dtype than the baseline's"),
    Metric("bytes_saved", formulas.bytes_saved, "bytes", "higher",
           "eager_bytes - bytes_accessed; null if nothing was compiled"),
    Metric("peak_bytes", memory.peak_bytes, "bytes", "lower",
           "resident_bytes + step_peak_bytes + graph_pool_bytes - graph_pool_live_bytes: what a "
           "steady call needs above an empty process"),
    Metric("floor_s", formulas.floor_s, "s", "neither",
           "least time for flops and least_bytes at the device's ceilings"),
    Metric("floor_bound", formulas.floor_bound, "", "neither",
           "which of the two sets floor_s: compute or memory"),
    Metric("roofline_fraction", formulas.roofline_fraction, "1", "higher",
           "floor_s ÷ device_s, on a CPU ÷ work_s; near 1 little is left to gain; low for "
           "pointwise arithmetic, which flops do not count"),
    Metric("flags", flags.flags, "", "neither",
           "flags of all processes of the case, and those of comparisons with other rows"),
    Metric("flags_touch", flags.flags_touch, "", "neither",
           "what each of these makes doubtful: speedup (or latency), latency, device, split, "
           "roofline or profile"),
    Metric("cause", finding.cause, "", "neither",
           "codes of what explains the result, most important first, joined by ;; null if the "
           "columns decide none"),
    Metric("cause_text", finding.cause_text, "", "neither",
           "the first of these in a sentence with numbers, and what to do"),
)  # fmt: skip

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
