"""Ranks and Mann and Whitney's z are those of scipy; the sign is that of `test_diagnostics`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from modescope.bench.stats.orders import mann_whitney_z, rank


def test_equal_values_have_no_statistic() -> None:
    assert mann_whitney_z([1.0, 1.0], [1.0, 1.0, 1.0]) == 0


@pytest.mark.parametrize("digits", [1, 2, 6])
@pytest.mark.parametrize("n", [5, 6, 30, 120])
def test_ranks_and_z_are_those_of_scipy(n: int, digits: int) -> None:
    random = np.random.default_rng(n)
    for _ in range(50):
        first, second = np.round(random.normal(size=(2, n)), digits)
        first = first[: n // 2 + 1]
        both = np.concatenate([first, second])
        assert rank(both).tolist() == scipy.stats.rankdata(both).tolist()
        expected = scipy.stats.mannwhitneyu(first, second, method="asymptotic").pvalue
        z = mann_whitney_z(first, second)
        assert math.erfc(abs(z) / math.sqrt(2)) == pytest.approx(expected, rel=1e-9)
