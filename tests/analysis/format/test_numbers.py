from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from modescope.analysis.format import numbers
from modescope.bench.stats.estimates import Estimate


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        (numbers.duration, [None], "–"),
        (numbers.duration, [1.2345e-3], "1.23 ms"),
        (numbers.duration, [0.9999], "1.00 s"),
        (numbers.duration, [5e-8], "50.0 ns"),
        (numbers.duration, [0.0], "0 s"),
        (
            numbers.duration_interval,
            [Estimate(357.2e-6, 357.0e-6, 357.4e-6)],
            "357.2 µs [357.0, 357.4]",
        ),
        (numbers.duration_interval, [Estimate(999.8e-6, 980e-6, 1020e-6)], "1.00 ms [0.98, 1.02]"),
        (numbers.duration_interval, [Estimate(1e-3, None, None)], "1.00 ms"),
        (
            numbers.duration_interval,
            [Estimate(-7.5e-11, -4.94e-9, 4.79e-9)],
            "-0.07 ns [-4.94, 4.79]",
        ),
        (numbers.calls, [math.inf], "never"),
        (numbers.calls, [12_431.0], "12,400"),
        (numbers.size, [1010], "1010 B"),
        (numbers.size, [2**30 - 1], "1.00 GiB"),
        (numbers.tick, [20 * 2**20, numbers.size_unit], "20 MiB"),
        (numbers.tick, [5e-4, numbers.time_unit], "500 µs"),
        (numbers.factor_interval, [Estimate(1.2345, 1.2, 1.27)], "1.23× [1.20, 1.27]"),
        (numbers.factor_interval, [Estimate(1.2344, 1.2316, 1.2376)], "1.234× [1.232, 1.238]"),
        (numbers.factor_interval, [Estimate(1.03, 1.008, 1.053)], "1.030× [1.008, 1.053]"),
        (numbers.factor_interval, [Estimate(1.04, 1.012, 1.07)], "1.040× [1.012, 1.070]"),
        (numbers.factor_interval, [Estimate(0.96, 0.92, 0.993)], "0.960× [0.920, 0.993]"),
        (numbers.share_interval, [Estimate(0.81, 0.79, 0.82)], "81 % [79, 82]"),
        (numbers.share_interval, [Estimate(0.81, 0.808, 0.812)], "81.0 % [80.8, 81.2]"),
        (numbers.percent, [0.00531], "0.53 %"),
        (numbers.percent, [1.62], "160 %"),
        (numbers.ratio, [Estimate(10.73, 1.29, 13.42)], "at least 1.29×"),
        (numbers.ratio, [Estimate(0.3, 0.1, 0.78)], "at most 0.78×"),
        (numbers.ratio, [Estimate(1.15, 0.81, 1.55)], "between 0.81× and 1.55×"),
        (numbers.ratio, [Estimate(1.2, 1.05, 1.5)], "1.20× [1.05, 1.50]"),
        (numbers.middle, [Estimate(1.2, 1.05, 1.5)], "1.20×"),
        (numbers.middle, [Estimate(1.2, None, None)], "1.20×"),
        (numbers.middle, [Estimate(10.73, 1.29, 13.42)], "at least 1.29×"),
        (numbers.counted, [1, "kernel", "kernels"], "1 kernel"),
        # A limit in the unit that it was chosen in
        (numbers.limit, [8 * 10**9], "8 GB"),
        (numbers.limit, [8 * 2**30], "8 GiB"),
        (numbers.limit, [3 * 2**29], "1.5 GiB"),
    ],
)
def test_numbers_as_text(form: Callable[..., str], values: list[Any], expected: str) -> None:
    assert form(*values) == expected
