"""The baseline's time in a heading."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.analysis.format.baselines import against
from modescope.bench.stats.estimates import Estimate


def row(seconds: float | None, dtype: str = "fp32", **columns: Any) -> Any:
    usual = {"baseline_mode": "eager", "budget_rank": 2, "calls": None, "flags": None}
    time = None if seconds is None else Estimate(seconds, None, None)
    return {**usual, "baseline_dtype": dtype, "baseline_latency_s": time, **columns}


DOUBTED: dict[str, Any] = {"flags": ["slow_pace"], "flags_touch": ["latency"]}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(1e-3), row(3e-3), row(2e-3)], "against eager fp32, 2.00 ms"),
        ([row(9e-3, budget_rank=0), row(2e-3)], "against eager fp32, 2.00 ms"),
        ([row(2e-3, budget_rank=0), row(None)], "against eager fp32, 2.00 ms"),
        ([row(2e-3, **DOUBTED), row(2e-3, **DOUBTED)], "against eager fp32, ~2.00 ms"),
        ([row(2e-3, **DOUBTED), row(2e-3)], "against eager fp32, 2.00 ms"),
        ([row(2.0, calls='{"seq":[1,2]}')], "against eager fp32, 2.00 s a pass"),
        ([row(2.0), row(None, "bf16")], "against eager fp32, 2.00 s and eager bf16"),
        ([row(2.0, baseline_mode=None)], "no baseline"),
    ],
)
def test_the_time_is_the_median_of_what_counts(rows: list[Any], said: str) -> None:
    assert against(rows) == said
