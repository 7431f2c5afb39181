"""The columns of a row's summary; `bench.summary` computes them from the row's own samples.

An estimate is three columns: its value and the ends of its interval.
"""

from __future__ import annotations

import pyarrow as pa

CLOCKS = (
    *("latency", "baseline_latency", "host", "device", "pipelined", "dispatch"),
    *("forward", "backward", "optimizer", "scaler"),
)
"""Estimates in seconds: `latency_s`, `latency_ci_low_s`, `latency_ci_high_s`."""

RATIOS = (
    *("speedup", "host_share", "device_share", "pipelined_share", "dispatch_share"),
    *("host_per_device", "device_gain", "dispatch_ratio", "forward_share", "backward_share"),
    *("optimizer_share", "scaler_share", "parts_ratio", "paced_latency"),
)
"""Estimates without a unit: `speedup`, `speedup_ci_low`, `speedup_ci_high`."""

VALUES = {
    "latency_p95": "latency_p95_s",
    "pace_fastest": "pace_fastest_s",
    "pace_typical": "pace_typical_s",
    "pace_slowest": "pace_slowest",
    "profiled_share": "profiled_share",
    "busy_share": "busy_share",
}
"""Estimates without an interval, and their columns."""

ESTIMATES = {
    **{name: (f"{name}_s", f"{name}_ci_low_s", f"{name}_ci_high_s") for name in CLOCKS},
    **{name: (name, f"{name}_ci_low", f"{name}_ci_high") for name in RATIOS},
    **{name: (column,) for name, column in VALUES.items()},
}
"""Every estimate with its columns: value, low and high."""

SUMMARY = pa.schema(
    [
        ("summary_version", pa.int64()),
        ("verdict", pa.string()),
        ("mde", pa.float64()),
        ("rounds", pa.int64()),
        ("peak_bytes", pa.int64()),
        ("row_flags", pa.list_(pa.string())),
        *((column, pa.float64()) for columns in ESTIMATES.values() for column in columns),
    ]
)

DOCS = {
    "summary_version": "version of the formulas of the summary; null: it was not computed yet. A "
    "row of another version is summarised as it is read",
    "row_flags": "the stored flags, and those that the row's own rounds, clocks and counts raise",
    "paced_latency": "median over rounds of latency ÷ time of the fixed Python code",
    "paced_latency_ci_low": "lower end of its 95 % interval",
    "paced_latency_ci_high": "upper end of that interval",
    "pace_fastest_s": "time of the fixed Python code in the fastest rounds (5th percentile), or "
    "best_pace_s if that is shorter",
    "pace_typical_s": "median time of the fixed Python code over the rounds",
    "profiled_share": "work of a call by the profiler ÷ work by the clocks",
    "busy_share": "device_busy_s ÷ latency_s; null on a CPU",
    "baseline_latency_ci_low_s": "lower end of the 95 % interval of baseline_latency_s",
    "baseline_latency_ci_high_s": "upper end of that interval",
}
"""Columns that are no derived columns, which `analysis.derive.registry` describes."""
