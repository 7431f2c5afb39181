"""The columns of a row's summary, which `bench.summary` computes from the row's samples.

A new number is a line of its group here, with its formula there unless it is a clock or a ratio of
two. An estimate has three columns in a file: its value and its interval's ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from modescope.bench.records.columns.column import estimate_columns
from modescope.bench.records.gap_steps import STEPS, TRIALS


@dataclass(frozen=True)
class Number:
    """A number of a summary, and its entry in the data dictionary.

    `clocks`: those that it is computed from, whose rounds are the columns `<clock>_rounds_s`. Of
    one clock it is the median, of two their ratio within each round, where the machine's pace
    cancels (a ratio of two medians would compare times at different paces). Empty: it has a formula
    in `bench.summary.all_estimates`.
    """

    column: str
    better: str  # lower | higher | neither
    doc: str
    clocks: tuple[str, ...] = ()
    in_files: int = 3  # columns; 1: it has no interval
    in_csv: int = 3  # columns of the derived table; 1: without the interval, 0: it is in files only

    @property
    def name(self) -> str:
        """The name of the estimate in `bench.summary`: the column without its unit."""
        return self.column.removesuffix("_s")


OF_CALLS = (
    Number("latency_s", "lower", "a call for a caller who waits for it", ("latency",)),
    Number("latency_p95_s", "lower", "95th percentile of single calls; null below 100 calls",
           in_files=1, in_csv=1),
    Number("baseline_latency_s", "neither", "the baseline's latency over the same rounds",
           ("baseline_latency",), in_csv=1),
    Number("speedup", "higher",
           "baseline ÷ case, both timed in a round; above 1 is faster; null on CUDA if the host "
           "was slow (slow_pace), which changes it"),
)  # fmt: skip

OF_CLOCKS = (
    Number("host_s", "lower", "how long the host is busy issuing a call", ("host",)),
    Number("device_s", "lower", "device time of a call, launches queued ahead; null on a CPU",
           ("device",)),
    Number("pipelined_s", "lower",
           "time per further call if calls follow each other without waiting", ("pipelined",)),
    Number("dispatch_s", "lower",
           "the same call on an empty batch: Python, dispatcher, autograd, guards, allocation",
           ("dispatch",)),
    Number("host_share", "neither", "host ÷ latency in the same round; about 1 on a CPU",
           ("host", "clocks_latency")),
    Number("device_share", "neither", "device time ÷ latency; null on a CPU",
           ("device", "clocks_latency")),
    Number("pipelined_share", "neither",
           "pipelined time ÷ latency; on CUDA the larger of host_share and device_share",
           ("pipelined", "clocks_latency")),
    Number("dispatch_share", "neither", "dispatch ÷ latency", ("dispatch", "clocks_latency")),
    Number("host_per_device", "neither", "host ÷ device time; null on a CPU", ("host", "device")),
    Number("device_gain", "higher",
           "the baseline's device time ÷ this row's; null on a CPU", ("baseline_device", "device")),
    Number("dispatch_ratio", "higher",
           "the baseline's dispatch ÷ this row's; compiled code has only guards and wrapper",
           ("baseline_dispatch", "dispatch")),
)  # fmt: skip

OF_PACE = (
    Number("paced_latency", "neither",
           "latency ÷ time of the fixed Python code in the same round", ("latency", "pace"),
           in_csv=0),
    Number("pace_fastest_s", "neither",
           "time of that code in the fastest rounds (5th percentile), or best_pace_s if that is "
           "shorter",
           in_files=1, in_csv=0),
    Number("pace_typical_s", "neither", "median time of that code in the rounds that count",
           in_files=1, in_csv=0),
    Number("pace_slowest", "neither",
           "speed in the slowest rounds ÷ speed in the fastest (5th and 95th percentile)",
           in_files=1, in_csv=1),
)  # fmt: skip

OF_STEPS = (
    Number("forward_s", "lower",
           "forward and loss of a training step, in a pass that waits after each part",
           ("forward",)),
    Number("backward_s", "lower", "backward, likewise", ("backward",)),
    Number("optimizer_s", "lower", "the optimizer's step and dropping the gradients",
           ("optimizer",)),
    Number("scaler_s", "lower", "GradScaler's operations; null without one", ("scaler",)),
    Number("forward_share", "neither", "forward and loss ÷ the whole step in the same block",
           ("forward", "parts_latency")),
    Number("backward_share", "neither", "the same for backward", ("backward", "parts_latency")),
    Number("optimizer_share", "neither", "the same for the optimizer",
           ("optimizer", "parts_latency")),
    Number("scaler_share", "neither", "the same for GradScaler", ("scaler", "parts_latency")),
    Number("parts_ratio", "neither",
           "sum of the parts ÷ the whole step; above 1 because each part is waited for"),
)  # fmt: skip

OF_PROFILES = (
    Number("profiled_share", "neither", "work of a call by the profiler ÷ work by the clocks",
           in_files=1, in_csv=0),
    Number("busy_share", "neither", "device_busy_s ÷ latency_s; null on a CPU",
           in_files=1, in_csv=0),
)  # fmt: skip

OF_GAP = (
    *(
        Number(f"step_{step.name}", "higher",
               f"share of eager's call that this step saves (negative: adds): {step.doc}",
               in_csv=1)
        for step in STEPS
    ),
    Number("steps_gap", "higher", "1 - mode ÷ eager in the rounds of the steps"),
    Number("steps_control", "neither",
           "share of eager's call by which the same mode, compiled once more, differs from itself; "
           "a step that is no larger says nothing"),
    Number("steps_rest", "neither", "steps_gap less the sum of the steps, as medians do not add up",
           in_files=1, in_csv=1),
    *(
        Number(f"with_{trial.name}", "higher",
               f"how many times as fast the mode is if {trial.doc}, in the same rounds", in_csv=1)
        for trial in TRIALS
    ),
)  # fmt: skip

OF_STARTS = (
    Number("start_s", "lower",
           "mean of starts_s: a new process until its first right result; the interval "
           "is that of the spread between processes, null below three"),
    Number("start_ratio", "lower",
           "geometric mean of starts_s / baseline_starts_s, of processes that took turns; its "
           "interval likewise"),
)  # fmt: skip

NUMBERS = (*OF_CALLS, *OF_CLOCKS, *OF_PACE, *OF_STEPS, *OF_PROFILES, *OF_GAP, *OF_STARTS)

SIGNED = {
    "start_s",
    *(number.column for number in OF_GAP if number.column.startswith("step")),
}
"""Estimates that are added up, as differences are: their means are arithmetic."""

ESTIMATES = {
    number.name: estimate_columns(number.column) for number in NUMBERS if number.in_files == 3
}
"""Estimate -> its columns: value, low end and high end."""

VALUES = {number.name: number.column for number in NUMBERS if number.in_files == 1}
"""Number without an interval -> its column."""

SUMMARY = pa.schema(
    [
        ("summary_version", pa.int64()),
        ("verdict", pa.string()),
        ("mde", pa.float64()),
        ("rounds", pa.int64()),
        ("slow_rounds", pa.int64()),
        ("peak_bytes", pa.int64()),
        ("row_flags", pa.list_(pa.string())),
        *((column, pa.float64()) for columns in ESTIMATES.values() for column in columns),
        *((column, pa.float64()) for column in VALUES.values()),
    ]
)
"""The columns that `bench.summary` computes."""

SUMMARY_DOCS = {
    "summary_version": "version of the formulas; a row of another version is summarised as it is "
    "read",
    "rounds": "paired rounds behind latency_s and speedup, of the process with the fewest",
    "slow_rounds": "rounds left out on CUDA because the host was far slower than at its best; 0 if "
    "too few others would be left for an interval",
    "peak_bytes": "resident_bytes + step_peak_bytes + graph_pool_bytes - graph_pool_live_bytes: "
    "what a steady call needs above an empty process",
    "row_flags": "the stored flags, and those that the row's own rounds, clocks and counts raise",
    **{number.column: number.doc for number in NUMBERS if not number.in_csv},
}
"""Data dictionary entries of the SUMMARY columns that a derived table lacks or takes over as they
are; those of the others are METRICS of `analysis.metrics`."""
