"""The table of metrics, the derived columns. A new one is a function and a line of METRICS.

The function takes the table of cases, with the columns of the lines above its own, and returns a
column. The line is also its entry in the data dictionary, which `python -m analysis.dictionary`
generates. A metric that needs the samples of a run, which the table does not have, is an estimate
of `bench.summary`, and here a line with `Part("_name", "value")`.
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
    roofline,
    split,
)
from modescope.analysis.derive.formulas import Formula, Part, column
from modescope.analysis.derive.replicates import ESTIMATES, combined
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
    doc: str


# Columns that several metrics read, each computed before the first of them.
_SHARED: dict[str, tuple[str, Formula]] = {
    "latency_paired_s": ("_group_baseline_s", formulas.group_baseline_s),
    "pace": ("_best_pace_s", pace.best_pace_s),
    "latency_at_full_pace_s": ("_on_cuda", are_on_cuda),
    "speedup_same_grad": ("_same_grad", against.same_grad),
    "fusion_gain": ("_fusion", fusion.fusion),
    "threads_gain": ("_threads_gain", pace.thread_gains),
    "cause": ("_causes", finding.found),
}


def derived(study_folder: str | Folder) -> pd.DataFrame:
    """One row per case and environment of a study, with every metric."""
    return derive(latest(read(study_folder).table))


def derive(processes: pd.DataFrame) -> pd.DataFrame:
    """The cases of `select.latest` with a column for each of METRICS; null where unknown.

    `processes` come from `load.read`, so they have the estimates of `bench.summary`.
    Replicate processes of a case become one row (`replicates.combined`).
    """
    stored = combined(processes)
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
    """The metrics that are parts of the estimates in a table, which most are.

    Made at once: to add one column to many takes pandas longer than to compute it.
    """
    lists = {name: table[name].tolist() for name in ESTIMATES}
    found = {
        metric.name: metric.function.values(lists[metric.function.estimates])
        for metric in METRICS
        if isinstance(metric.function, Part) and metric.function.estimates in lists
    }
    return pd.DataFrame(found, index=table.index, dtype="float64")


def _triple(
    name: str,
    better: str,
    doc: str,
    of: str = "rounds",
    formula: Callable[[str], Formula] | None = None,
) -> tuple[Metric, ...]:
    """An estimate and the ends of its interval over `of`; by default that of the row's summary."""
    stem, unit = name.removesuffix("_s"), "s" if name.endswith("_s") else "1"
    ending = name.removeprefix(stem)
    part = formula or partial(Part, f"_{stem}")
    return (
        Metric(name, part("value"), unit, better, doc),
        Metric(f"{stem}_ci_low{ending}", part("low"), unit, better,
               f"lower end of the 95 % interval of {name}, or of the range of two processes (see "
               f"replicates); null below 12 {of}"),
        Metric(f"{stem}_ci_high{ending}", part("high"), unit, better,
               "upper end of that interval or range"),
    )  # fmt: skip


def _clock(name: str, doc: str) -> tuple[Metric, ...]:
    return _triple(f"{name}_s", "lower", doc, "values")


# Computed in this order: an entry may use the columns of those above it.
METRICS = (
    *_clock("latency", "median over rounds of the time of a call for a caller who waits for it"),
    Metric("latency_p95_s", Part("_latency_p95", "value"), "s", "lower",
           "95th percentile over single calls; null below 100 calls, as fewer than five would lie "
           "beyond it"),
    Metric("baseline_latency_s", Part("_baseline_latency", "value"), "s", "neither",
           "median of the baseline's latency over the same rounds"),
    *_triple("speedup", "higher",
             "median over rounds of baseline ÷ case, both timed in a round; above 1 is faster"),
    Metric("latency_paired_s", formulas.latency_paired_s(""), "s", "lower",
           "median of baseline_latency_s over the rows of the same work, machine, baseline and "
           "budget ÷ speedup: the latency that tables and figures show, as latencies of separate "
           "processes do not compare as their speedups do. latency_s without a baseline"),
    Metric("latency_paired_ci_low_s", formulas.latency_paired_s("_ci_low"), "s", "lower",
           "the same ÷ speedup_ci_high"),
    Metric("latency_paired_ci_high_s", formulas.latency_paired_s("_ci_high"), "s", "lower",
           "the same ÷ speedup_ci_low"),
    Metric("confirming_speedup", column("confirming_speedup"), "1", "higher",
           "speedup in a second process that measured nothing else, before a sweep recommended "
           "this mode or the one above it; null where there was none"),
    Metric("confirming_speedup_ci_low", column("confirming_speedup_ci_low"), "1", "higher",
           "lower end of its 95 % interval"),
    Metric("confirming_speedup_ci_high", column("confirming_speedup_ci_high"), "1", "higher",
           "upper end of that interval"),
    Metric("speedup_process_spread", column("_speedup_spread"), "1", "lower",
           "relative standard deviation of speedup between replicate processes (0.02: 2 %); null "
           "for fewer than two"),
    Metric("latency_process_spread", column("_latency_spread"), "1", "lower",
           "the same for latency_s"),
    Metric("speedup_same_grad", Part("_same_grad", "value"), "1", "higher",
           "this row's speedup ÷ that of plain eager (nothing compiled, captured or autocast) with "
           "the same grad axis, work, machine and baseline, at the baseline's dtype; null without "
           "such a trusted row, for that row itself, where it would be 1 by definition, and for "
           "budget=smoke"),
    Metric("speedup_same_grad_ci_low", Part("_same_grad", "low"), "1", "higher",
           "lower end of its interval, by the rule of against_speedup_ci_low"),
    Metric("speedup_same_grad_ci_high", Part("_same_grad", "high"), "1", "higher",
           "upper end of that interval"),
    Metric("verdict", formulas.verdict, "", "neither",
           "faster or slower: the interval of speedup lies beyond ±1 %; equivalent: inside; else "
           "inconclusive; null without an interval and for budget=smoke"),
    Metric("mde", formulas.mde, "1", "neither",
           "minimum detectable effect: the smallest true change (0.02: 2 %) whose interval would "
           "exclude 1 in 80 % of such runs; null where several processes were combined"),
    Metric("break_even_calls", formulas.break_even_calls, "calls", "lower",
           "excess of the first call over the baseline's ÷ time gained per call, latency_s × "
           "(speedup - 1). The excess is 0 "
           "(pays at once) if the first call is shorter, or if nothing is compiled or captured; in "
           "the latter case unknown if it exceeds the baseline's by a factor of two and by 0.1 s, "
           "as each is measured only once. inf (never pays) unless the interval of speedup lies "
           "above 1; null where unknown, if the verdict is inconclusive, if the mode is not in "
           "effect, and for the baseline itself"),
    Metric("rounds", column("_rounds"), "rounds", "neither",
           "paired rounds behind latency_s and speedup; those of the process with the fewest"),
    *_clock("host", "median over rounds of how long the host is busy issuing one call"),
    *_clock("device", "median over rounds of the device time of one call, launches queued ahead; "
            "null on a CPU"),
    *_clock("pipelined", "median over rounds of the time per further call when calls follow each "
            "other without waiting"),
    *_clock("dispatch", "median over rounds of the same call on an empty batch, which does no "
            "work: Python, dispatcher, autograd, guards, allocation"),
    *_triple("host_share", "neither",
             "median over rounds of host ÷ latency of the same round of the clocks; about 1 on a "
             "CPU, where nothing is queued"),
    *_triple("device_share", "neither", "the same for the device time; null on a CPU"),
    *_triple("pipelined_share", "neither",
             "the same for the pipelined time; on CUDA the larger of host_share and device_share, "
             "on a CPU about 1"),
    *_triple("dispatch_share", "neither", "the same for dispatch"),
    *_triple("host_per_device", "neither",
             "median over rounds of host ÷ device time of the same round; above 1 the host is busy "
             "for longer; null on a CPU"),
    *_triple("device_gain", "higher",
             "median over rounds of the baseline's device time ÷ this row's, in the same round; "
             "above 1 is less work of the device; null on a CPU, and where either is unknown"),
    *_triple("dispatch_ratio", "higher",
             "median over rounds of the baseline's dispatch ÷ this row's, in the same round; above "
             "1 is less dispatch; compiled code has only guards and wrapper (see dispatch_note)"),
    Metric("pace", pace.pace, "1", "neither",
           "speed of the machine during the row ÷ its best: shortest time of a fixed piece of "
           "Python code (5th percentile) in any row of the same environment_id in the study, or "
           "the shortest best_pace_s of these, ÷ its median over the rounds of the speedup; null "
           "where it was not measured"),
    Metric("pace_slowest", Part("_pace_slowest", "value"), "1", "neither",
           "speed of the machine in the slowest rounds of the speedup ÷ speed in the fastest: 5th "
           "÷ 95th percentile of the time of a fixed piece of Python code; null where it was not "
           "measured. Ratios within rounds do not depend on it, times in seconds do"),
    *_triple("latency_at_full_pace_s", "lower",
             "median over rounds of latency ÷ time of the fixed Python code in the same round, × "
             "the shortest time of that code (5th percentile) in any row of the same "
             "environment_id in the study: latencies as if every round had run at that pace. It "
             "assumes that the call slows down as this code does, which code that waits for "
             "memory or for a GPU does not; null where no pace was measured",
             formula=pace.latency_at_full_pace_s),
    *_triple("threads_gain", "higher",
             "latency of the same case with the fewest threads in the study ÷ this row's; above 1 "
             "the further threads make it faster. Both are at full pace where that is known. The "
             "two are separate processes, so the interval is the worst case of both intervals, and "
             "does not cover what two processes of the same code differ by; null for the fewest "
             "threads, and where other programs ran beside one of the two (flag contended), as "
             "these slow two threads down by another factor than one"),
    *_clock("forward", "median over blocks of the forward and the loss of a training step, in a "
            "separate pass that synchronises after each part; null for inference and where "
            "parts_note gives a reason"),
    *_clock("backward", "the same for the backward of the loss"),
    *_clock("optimizer", "the same for the optimizer's step and dropping the gradients"),
    *_clock("scaler", "the same for the operations of a GradScaler; null without one"),
    *_triple("forward_share", "neither",
             "median over blocks of forward and loss ÷ the whole step, both of the same block"),
    *_triple("backward_share", "neither", "the same for the backward of the loss"),
    *_triple("optimizer_share", "neither",
             "the same for the optimizer's step and dropping the gradients"),
    *_triple("scaler_share", "neither", "the same for the operations of a GradScaler"),
    *_triple("parts_ratio", "neither",
             "median over blocks of the sum of the parts (forward, backward, optimizer, and "
             "scaler if there is one) ÷ the whole step, all of the same block. It rises above 1 "
             "because each part is waited for. Null where the time of a part is unknown",
             "blocks"),
    *(
        Metric(f"{clock}_paired_s", split.clock_paired_s(clock), "s", "lower",
               f"latency_paired_s × {clock}_share: what tables and figures show as {clock}")
        for clock in ("host", "device", "pipelined", "dispatch", *STEP_PARTS)
    ),
    Metric("launch_s", split.launch_s, "s", "lower",
           "latency_paired_s × (host_share - dispatch_share), at least 0: the host's time for a "
           "call besides dispatch; null on a CPU"),
    Metric("work_s", split.work_s, "s", "lower",
           "latency_paired_s × device_share; on a CPU latency_paired_s × (1 - dispatch_share), at "
           "least 0"),
    Metric("host_wait_s", split.host_wait_s, "s", "neither",
           "latency_paired_s × (1 - host_share), at least 0: the host waits for the device; null "
           "on a CPU"),
    Metric("device_idle_s", split.device_idle_s, "s", "neither",
           "latency_paired_s × (1 - device_share), at least 0: the device waits for the host; null "
           "on a CPU"),
    Metric("bound_by", split.bound_by, "", "neither",
           "overhead or work: whether the interval of host_per_device lies above or below 1; on a "
           "CPU that of dispatch_share above or below one half; undecided where it contains that "
           "threshold"),
    Metric("device_idle_fraction", profile.device_idle_fraction, "1", "neither",
           "share of latency_s in which no kernel, copy or fill ran, by device_busy_s (not by the "
           "profiled span, as the profiler slows the host), in each process. Profile and latency "
           "come from different passes, so this share is not paired within rounds; null on a CPU, "
           "and where a flag marks the profile as unreliable"),
    Metric("residual_s", profile.residual_s, "s", "neither",
           "work_s × (1 - profiled ÷ clocked work), in each process. On a CPU the profiled work is "
           "the median share of kernels in profiled_latency_rounds_s, the clocked one 1 - "
           "dispatch_share (negative if profiled kernels include a part of dispatch, and no check "
           "where dispatch_share is more than 1/6). On CUDA they are device_busy_s and device_s "
           "(leaving the pauses between kernels), which cannot be paired, as the pace is the "
           "host's. Null where a flag marks the profile as unreliable"),
    Metric("fusion_gain", Part("_fusion", "gain.value"), "1", "higher",
           "work of plain eager with the same grad axis and dtype ÷ work of this row, each through "
           "its own baseline, as times differ between processes: on CUDA this row's device_gain ÷ "
           "eager's; on a CPU the ratio of the speedups × that of the shares of work, 1 - "
           "dispatch_share. Null if either row is not trusted or has no such ratio to its "
           "baseline, if its interval of work includes 0, and for plain eager itself"),
    Metric("fusion_gain_ci_low", Part("_fusion", "gain.low"), "1", "higher",
           "lower end of the interval of fusion_gain. It is computed from the least favourable "
           "ends of the 95 % intervals of both rows, so the interval is wider than a 95 % interval "
           "has to be"),
    Metric("fusion_gain_ci_high", Part("_fusion", "gain.high"), "1", "higher",
           "upper end of that interval"),
    Metric("fusion_speedup", Part("_fusion", "speedup"), "1", "higher",
           "speedup over that plain eager if only its work changed: 1 ÷ (1 - its share of work × "
           "(1 - 1 ÷ fusion_gain)), the share being device_share, on a CPU 1 - dispatch_share; on "
           "CUDA a call takes no less than eager's host_share and synchronize_s ÷ latency_s, and "
           "more work adds only what exceeds its host_share"),
    Metric("launch_gain", fusion.launch_gain, "1", "higher",
           "speedup_same_grad ÷ fusion_speedup: the gain from fewer launches and less dispatch; "
           "null at another dtype than the baseline's, as the two then refer to different rows"),
    Metric("bytes_saved", formulas.bytes_saved, "bytes", "higher",
           "eager_bytes - bytes_accessed: the reduction of bytes read and written by compiled code "
           "from those of eager's operators; null if nothing was compiled or either is unknown"),
    Metric("peak_bytes", memory.peak_bytes, "bytes", "lower",
           "resident_bytes + step_peak_bytes + graph_pool_bytes - graph_pool_live_bytes: the need "
           "of a steady call above an empty process, including what a graph's pool reserves for "
           "its replays (in whole segments of the allocator); null if there is a pool whose "
           "live part is unknown"),
    Metric("floor_s", roofline.floor_s, "s", "neither",
           "least time for flops and least_bytes at the ceilings of the device: the larger of the "
           "two quotients; null where one of the four is unknown; invalid with the flag "
           "above_ceiling"),
    Metric("floor_bound", roofline.floor_bound, "", "neither",
           "the limit that sets floor_s: compute or memory"),
    Metric("roofline_fraction", roofline.roofline_fraction, "1", "higher",
           "floor_s ÷ device_s, on a CPU ÷ work_s; near 1 little is left to gain on this device at "
           "this dtype, if its measured ceilings are the highest possible; above 1 they are not "
           "(flag above_ceiling); low for pointwise arithmetic, which flops do not count"),
    Metric("flags", flags.flags, "", "neither",
           "the stored flags of all processes of the case, those raised by their rounds, clocks "
           "and counts (bench.summary), and those from a comparison with another row"),
    Metric("flags_touch", flags.flags_touch, "", "neither",
           "what each of these flags makes doubtful, in their order: speedup (without a baseline, "
           "the latency), latency, device, split, roofline or profile"),
    Metric("cause", finding.cause, "", "neither",
           "codes of what explains the result (see Causes), the most important first, joined by ;; "
           "null where the columns decide none, and for budget=smoke"),
    Metric("cause_text", finding.cause_text, "", "neither",
           "the first of them in a sentence with figures, and what to do; "
           "`python -m analysis.why` prints all"),
)  # fmt: skip

# Columns that other programs may rely on, in the order in which --csv prints them.
CONTRACT = (
    "run_id", "case_id", "study", "started_at", "budget", "replicates", "status", "reason", "model",
    "model_args", "model_inputs", "shape", "batch", "seq", "phase", "optimizer", "training",
    "calls",
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
