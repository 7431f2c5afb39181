"""Derived columns: their table, each with its unit and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import crosscheck, formulas, gains, limits, memory, split, training
from analysis.formulas import Formula, column, part
from analysis.replicates import combined
from analysis.rows import latest
from analysis.study import read


@dataclass(frozen=True)
class Metric:
    """A derived column and its entry in the data dictionary."""

    name: str
    function: Formula
    unit: str
    better: str  # lower | higher | neither
    doc: str


def derived(study_folder: str | Path) -> pd.DataFrame:
    """What a study says: one row per case and environment, with every metric."""
    return derive(latest(read(study_folder).table))


def derive(processes: pd.DataFrame) -> pd.DataFrame:
    """The cases of `rows.latest`, with every metric of METRICS as a column; null where unknown.

    `processes` have their answers (`analysis.study`, `answers.answered`).

    Replicate processes of a case become one row (`replicates.combined`). `flags` holds those that
    were stored and those that only the derived figures show.
    """
    table = combined(processes)
    table = table.copy()  # in one piece, which pandas wants before so many columns are added
    for metric in METRICS:
        if metric.name in _SHARED:
            name, function = _SHARED[metric.name]
            table[name] = function(table)
        table[metric.name] = metric.function(table)
    asked = table.drop(columns=[name for name in table if str(name).startswith("_")])
    return asked.copy()  # in one piece again, for those who add a column of their own


def _clock(name: str, doc: str) -> tuple[Metric, ...]:
    """A clock's median and the ends of its interval."""
    return (
        Metric(f"{name}_s", part(f"_{name}", "value"), "s", "lower", doc),
        Metric(f"{name}_ci_low_s", part(f"_{name}", "low"), "s", "lower",
               f"lower end of the 95 % interval of {name}_s, of the range of two processes (see "
               "replicates); null below 12 values"),
        Metric(f"{name}_ci_high_s", part(f"_{name}", "high"), "s", "lower",
               "upper end of that interval or range"),
    )  # fmt: skip


# Computed in this order: an entry may use the columns of those above it.
METRICS = (
    *_clock("latency", "median over rounds of the latency a caller sees who waits for each call"),
    Metric("latency_p95_s", part("_p95", "value"), "s", "lower",
           "95th percentile over single calls; null below 100 calls, where fewer than five lie "
           "beyond it"),
    Metric("baseline_latency_s", part("_baseline", "value"), "s", "neither",
           "median over the same rounds of the baseline's latency"),
    Metric("speedup", part("_ratio", "value"), "1", "higher",
           "median over rounds of baseline ÷ case, both timed in that round; above 1 is faster"),
    Metric("speedup_ci_low", part("_ratio", "low"), "1", "higher",
           "lower end of the 95 % interval of speedup, of the range of two processes (see "
           "replicates); null below 12 rounds"),
    Metric("speedup_ci_high", part("_ratio", "high"), "1", "higher",
           "upper end of that interval or range"),
    Metric("speedup_same_grad", formulas.speedup_same_grad, "1", "higher",
           "this row's speedup ÷ that of plain eager (nothing compiled, captured or autocast) with "
           "the same grad axis, work, place and baseline, at the baseline's dtype; null where no "
           "such row can be trusted, and for that row itself, where it would be 1 by definition"),
    Metric("verdict", formulas.verdict, "", "neither",
           "faster or slower: the interval of speedup lies beyond ±1 %; equivalent: inside; else "
           "inconclusive; null without an interval and for budget=smoke"),
    Metric("mde", formulas.mde, "1", "neither",
           "smallest true change (0.02: 2 %) whose interval would have excluded 1 in 80 % of such "
           "runs; of one process, and null where several were combined"),
    Metric("break_even_calls", formulas.break_even_calls, "calls", "lower",
           "first call beyond the baseline's (at least 0) ÷ time gained per call. Each was read "
           "once, so where nothing is compiled or captured the first counts as no dearer (0: pays "
           "at once), and is unknown if more than twice and 0.1 s above the baseline's. inf where "
           "the interval of speedup does not lie above 1: it never pays; null where unknown, where "
           "the verdict is inconclusive, and for the baseline itself"),
    Metric("rounds", column("_rounds"), "rounds", "neither",
           "paired rounds behind latency_s and speedup; of the process with the fewest"),
    *_clock("host", "median over blocks of how long the host is busy issuing one call"),
    *_clock("device", "median over blocks of the device time of one call, launches queued ahead; "
            "null on a CPU"),
    *_clock("pipelined", "median over blocks of the time per further call when calls follow each "
            "other without waiting"),
    *_clock("dispatch", "median over blocks of the same call on an empty batch, which does no "
            "work: Python, dispatcher, autograd, guards, allocation"),
    *_clock("forward", "median over blocks of the forward of a training step and its loss, in a "
            "pass of its own in which each part is waited for; null for inference and where "
            "parts_note says why"),
    *_clock("backward", "the same of the backward of the loss"),
    *_clock("optimizer", "the same of the optimizer's step and of dropping the gradients"),
    *_clock("scaler", "the same of what a GradScaler does; null without one"),
    Metric("parts_ratio", training.parts_ratio, "1", "neither",
           "forward_s + backward_s + optimizer_s + scaler_s, where there is one, ÷ latency_s, in "
           "each process; above 1 as each part is waited for, and off 1 as the pace of the machine "
           "changes from pass to pass; null where one of the parts is"),
    Metric("parts_residual_s", training.parts_residual_s, "s", "neither",
           "latency_s × (1 - parts_ratio): what of the undivided step its parts leave; below 0 "
           "where they take longer"),
    Metric("launch_s", formulas.launch_s, "s", "lower",
           "host_s less dispatch_s, at least 0: what the host does for a call beyond dispatch; "
           "null on a CPU"),
    Metric("work_s", formulas.work_s, "s", "lower",
           "device_s; on a CPU latency_s less dispatch_s, at least 0"),
    Metric("host_wait_s", formulas.host_wait_s, "s", "neither",
           "latency_s less host_s, at least 0: the host waits for the device; null on a CPU"),
    Metric("device_idle_s", formulas.device_idle_s, "s", "neither",
           "latency_s less device_s, at least 0: the device waits for the host; null on a CPU"),
    Metric("bound_by", formulas.bound_by, "", "neither",
           "overhead or work: which of host_s and device_s is longer; on a CPU whether dispatch_s "
           "is more or less than half of latency_s; undecided where the intervals overlap"),
    Metric("device_idle_fraction", split.device_idle_fraction, "1", "neither",
           "part of latency_s in which no kernel, copy or fill ran, by device_busy_s (the profiler "
           "slows the host, so its span says less), in each process; null on a CPU, and where a "
           "flag says that the profile is not to be relied on"),
    Metric("residual_s", split.residual_s, "s", "neither",
           "work_s less what the profiler saw: device_busy_s on CUDA (left are the pauses between "
           "kernels), kernels_s on a CPU (below 0: kernels under the profiler include a part of "
           "dispatch, and where that is more than 1/6 of latency_s this checks nothing); a share "
           "of the work in each process; null where a flag says that the profile is not to be "
           "relied on"),
    Metric("fusion_gain", gains.fusion_gain("value"), "1", "higher",
           "work of plain eager with the same grad axis and dtype ÷ work of this row: device_s on "
           "CUDA; on a CPU the ratio of the speedups × that of the shares of work, 1 - dispatch_s "
           "÷ latency_s, because latencies differ from process to process. Null where either row "
           "is not to be trusted or may have no work by its intervals, and for plain eager itself"),
    Metric("fusion_gain_ci_low", gains.fusion_gain("low"), "1", "higher",
           "lower end of its interval: the worst case of the 95 % intervals of both rows, so wider "
           "than 95 % would ask for; within each process, and on CUDA, where device times have no "
           "pair, it says nothing about differences between processes unless both rows have "
           "replicates"),
    Metric("fusion_gain_ci_high", gains.fusion_gain("high"), "1", "higher",
           "upper end of that interval"),
    Metric("fusion_speedup", gains.fusion_speedup, "1", "higher",
           "speedup over that plain eager if less work were all that changed: its latency_s ÷ "
           "(its latency_s - its work_s × (1 - 1 ÷ fusion_gain)); on CUDA a call takes no less "
           "than eager's host_s + synchronize_s, and more work shows only beyond its host_s"),
    Metric("launch_gain", gains.launch_gain, "1", "higher",
           "speedup_same_grad ÷ fusion_speedup: what is left is due to fewer launches and less "
           "dispatch; null at another dtype than the baseline's, as the two are then not against "
           "the same row"),
    Metric("bytes_saved", formulas.bytes_saved, "bytes", "higher",
           "eager_bytes - bytes_accessed: what compiled code reads and writes less than the "
           "operators of eager; null where nothing was compiled or either was not counted"),
    Metric("peak_bytes", memory.peak_bytes, "bytes", "lower",
           "resident_bytes + step_peak_bytes + graph_pool_bytes - graph_pool_live_bytes: what a "
           "steady call needs above an empty process, room included that a graph's pool keeps for "
           "its replays (in whole segments of the allocator); null where there is a pool and its "
           "live part is unknown"),
    Metric("floor_s", limits.floor_s, "s", "neither",
           "least time for flops and least_bytes at the ceilings of the device: the larger of the "
           "two quotients; null where one of the four is unknown; no least time where the flag "
           "above_ceiling is up"),
    Metric("floor_bound", limits.floor_bound, "", "neither",
           "which of them it is: compute or memory"),
    Metric("roofline_fraction", limits.roofline_fraction, "1", "higher",
           "floor_s ÷ work_s; near 1 little is left to gain on this device at this dtype, as far "
           "as its ceilings are the highest there are; above 1 they are not (flag above_ceiling); "
           "low where arithmetic is pointwise, as flops do not count it"),
    Metric("speedup_process_spread", column("_ratio_spread"), "1", "lower",
           "relative standard deviation of speedup between replicate processes (0.02: 2 %); null "
           "below two"),
    Metric("latency_process_spread", column("_latency_spread"), "1", "lower",
           "the same of latency_s"),
    Metric("flags", crosscheck.flags, "", "neither",
           "the stored flags of all processes of the case, those that their rounds, clocks and "
           "counts show (see analysis.flags), and those that another row shows"),
)  # fmt: skip

# What several metrics are parts of, worked out before the first of them.
_SHARED: dict[str, tuple[str, Formula]] = {"fusion_gain": ("_fusion", gains.fusion)}

# The columns that other programs may rely on, in their order; those that exist are printed.
CONTRACT = (
    "run_id", "case_id", "study", "started_at", "budget", "replicates", "status", "reason", "model",
    "model_args", "shape", "batch", "seq", "phase", "optimizer", "training", "dtype", "mode",
    "grad", "autocast", "compile", "graph", "baseline_mode", "baseline_dtype", "device",
    "device_name", "torch_version", "threads", "compile_cache", "in_effect", "in_effect_note",
    "graph_breaks", "graph_break_reasons", "eager_functions",
    "latency_s", "latency_ci_low_s", "latency_ci_high_s", "latency_p95_s", "host_s", "device_s",
    "pipelined_s", "dispatch_s", "forward_s", "backward_s", "optimizer_s", "scaler_s",
    "parts_ratio", "speedup", "speedup_ci_low", "speedup_ci_high", "speedup_same_grad", "verdict",
    "mde", "first_call_s", "break_even_calls", "ops_dispatched", "kernels", "launches",
    "graph_launches", "device_busy_s", "device_idle_fraction", "fusion_gain", "weights_bytes",
    "gradient_bytes", "optimizer_state_bytes", "saved_activation_bytes", "step_peak_bytes",
    "peak_bytes", "setup_peak_bytes", "reserved_bytes", "graph_pool_bytes", "error", "error_place",
    "baseline_error", "loss_scale", "overflow_skipped", "flops", "roofline_fraction", "flags",
)  # fmt: skip
