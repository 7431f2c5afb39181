"""Made-up rows for tests of recommendations."""

from __future__ import annotations

from typing import Any

from modescope.bench.records.results import Record
from tests.helpers.studies import record

MIB = 2**20
CALL_S = 357e-6  # of `record`'s case by default


def control(speedup: float = 1.0, **columns: Any) -> Record:
    """A row of eager against itself, which shows the noise floor and the baseline's memory."""
    return record("eager", CALL_S, speedup, **{"first_call_s": 0.002, **columns})


def needs(peak: int, weights: int = MIB, first_call: int = 0) -> dict[str, int]:
    """Columns of a row whose steady call needs `peak` bytes, `weights` of them between calls, too.

    `first_call` is the peak of its first call.
    """
    return {
        "weights_bytes": weights,
        "input_bytes": 0,
        "resident_bytes": weights,
        "step_peak_bytes": peak - weights,
        "graph_pool_bytes": 0,
        "graph_pool_live_bytes": 0,
        "setup_peak_bytes": first_call,
    }
