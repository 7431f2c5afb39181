"""Statistics of stored rounds."""

from __future__ import annotations

import numpy as np
import pytest

from modescope.analysis.rows.run_stats import STATISTICS


def test_the_speedup_knows_the_order_of_the_rounds() -> None:
    first = np.random.default_rng(0).permutation(np.arange(41) < 21)
    noise = np.random.default_rng(1).normal(0, 0.002, (2, 41))
    run = {
        "latency_rounds_s": np.exp(noise[0] + np.where(first, 0, 0.02)),
        "baseline_latency_rounds_s": np.exp(noise[1] + np.where(first, 0.02, 0)),
        "case_ran_first": first,
    }
    known, unknown = (
        STATISTICS["_ratio"](run | {"case_ran_first": order}) for order in (first, None)
    )
    assert known is not None
    assert known.value == pytest.approx(1, abs=0.002)
    assert unknown is not None
    assert unknown.value > 1.01  # 21 of the 41 rounds favour the case
