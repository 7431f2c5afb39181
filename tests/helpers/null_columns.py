"""Columns that may be null in a row of a CPU."""

from __future__ import annotations

from dataclasses import asdict, fields

from modescope.bench.records.columns import (
    CeilingRates,
    Compilations,
    FirstPass,
    GeneratedCode,
    LossScaling,
    Memory,
    Profiled,
    Setup,
    SizeLatencies,
    Snapshot,
    StepParts,
    WorkCounts,
)
from modescope.bench.records.results import Findings

OF_COMPILED_MODES = {
    *("graph_breaks", "graph_break_reasons", "eager_functions"),
    *(column.name for column in fields(Compilations)),
}


NULL_ON_A_CPU = {
    *OF_COMPILED_MODES,
    "in_effect_note",
    "changed_arguments",
    "steady_operators",
    "pipelined_note",
    "best_pace_s",
    "settings_put_back",
    "settings_in_calls",
    "own_graphs",
    "checked_note",
    "scale_error",
    "eager_scale_error",
    "scale_error_limit",
    "drawn_spread",
    "unchecked_outputs",
    "device_rounds_s",
    "baseline_device_rounds_s",
    "device_calls",
    "device_calls_wanted",
    "dispatch_note",
    "event_interval_s",
    "device_clock_hz",
    "gpu_processes",
}


OF_PASSES_NOT_ASKED_FOR = {
    column.name
    for part in (
        GeneratedCode,
        Profiled,
        Setup,
        Memory,
        Snapshot,
        WorkCounts,
        CeilingRates,
        LossScaling,
        StepParts,
        FirstPass,
        SizeLatencies,
    )
    for column in fields(part)
}


UP_TO_THE_SYSTEM = {  # not every Linux kernel counts these
    "cpu_wait_s",
    "others_cpu_s",
    "machine_cores",
    "cgroup_throttled_s",
    "throttle_reasons",
}


def nulls(findings: Findings) -> set[str]:
    """Null columns that every run fills; columns of passes that did not run are ignored."""
    found = {name for name, value in asdict(findings).items() if value is None}
    assert found >= OF_PASSES_NOT_ASKED_FOR
    return found - UP_TO_THE_SYSTEM - OF_PASSES_NOT_ASKED_FOR
