"""The flags of a comparison and of its conditions, by the rules of `bench.stats`."""

from __future__ import annotations

from modescope.bench.records.columns import Contention, DeviceState
from modescope.bench.stats import diagnostics
from modescope.bench.stats.conditions import contended, throttled
from modescope.bench.timing.comparison import Comparison


def raised(
    compared: Comparison, load: Contention, state: DeviceState | None = None
) -> tuple[str, ...]:
    """Names of flags (docs/how-to-read-a-report.md); `state`: None where it was not observed."""
    rounds, seen = compared.rounds, state or DeviceState()
    of_conditions = {
        "no_steady_state": not compared.steady,
        "contended": contended(load, seen.gpu_processes),
        "throttled": throttled(seen.device_clock_hz, seen.throttle_reasons),
    }
    return (
        *diagnostics.raised(
            rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, rounds.case_ran_first
        ),
        *(name for name, is_up in of_conditions.items() if is_up),
    )
