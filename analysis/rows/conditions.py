"""Flags for the conditions of a run, raised by stored facts other than its times.

Runs store raw counts and readings; limits are applied here, so that a new limit also applies to
old runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from modescope.analysis.format.phrases import Row
from modescope.bench.records.columns import Contention
from modescope.bench.stats.conditions import contended, throttled

CONTENDED = "contended"
"""The flag of a run beside which other programs ran."""


def _is_contended(run: Row) -> bool:
    readings = Contention(**{field.name: run[field.name] for field in fields(Contention)})
    return contended(readings, run["gpu_processes"])


def _is_throttled(run: Row) -> bool:
    return throttled(run["device_clock_hz"], run["throttle_reasons"])


def _has_a_full_queue(run: Row) -> bool:
    calls, wanted = run["device_calls"], run["device_calls_wanted"]
    return calls is not None and wanted is not None and bool(calls < wanted)


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    CONTENDED: _is_contended,
    "throttled": _is_throttled,
    "queue_full": _has_a_full_queue,
}
"""Flags and their conditions; an unknown value raises no flag."""
