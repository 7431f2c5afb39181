"""Under which conditions was a run measured? Flags that facts beside its times raise.

The facts are stored as counted and read; what is too much is decided here, so that a better limit
also judges the runs of yesterday.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from analysis.words import Row
from bench.contention import Contention, contended
from bench.pace import throttled


def raised(run: Row) -> list[str]:
    """Which of CONDITIONS the stored columns of `run` raise; unknown raises nothing."""
    return [name for name, is_up in CONDITIONS.items() if is_up(run)]


def _is_contended(run: Row) -> bool:
    seen = Contention(**{field.name: run[field.name] for field in fields(Contention)})
    return contended(seen, run["gpu_processes"])


def _is_throttled(run: Row) -> bool:
    return throttled(run["device_clock_hz"], run["throttle_reasons"])


def _has_a_full_queue(run: Row) -> bool:
    calls, wanted = run["device_calls"], run["device_calls_wanted"]
    return calls is not None and wanted is not None and bool(calls < wanted)


# flag -> is it up?
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "contended": _is_contended,
    "throttled": _is_throttled,
    "queue_full": _has_a_full_queue,
}
