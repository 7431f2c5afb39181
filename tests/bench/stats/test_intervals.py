from __future__ import annotations

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.intervals import difference, product, quotient

TEN, TWO = Estimate(10.0, 9.0, 12.0), Estimate(2.0, 1.0, 3.0)
OPEN = Estimate(2.0, None, None)


def test_the_ends_of_a_result_are_the_worst_case() -> None:
    assert quotient(TEN, TWO) == Estimate(5.0, 3.0, 12.0)
    assert difference(TEN, TWO) == Estimate(8.0, 6.0, 11.0)
    assert product(TEN, TWO) == Estimate(20.0, 9.0, 36.0)


def test_without_an_interval_the_result_has_none() -> None:
    assert quotient(TEN, OPEN) == Estimate(5.0, None, None)
    assert difference(OPEN, TWO) == Estimate(0.0, None, None)
    assert product(OPEN, TEN) == Estimate(20.0, None, None)


@pytest.mark.parametrize("unknown", [None, Estimate(1.0, -0.5, 2.0), Estimate(0.0, None, None)])
def test_a_quotient_with_an_unknown_term_is_unknown(unknown: Estimate | None) -> None:
    assert quotient(TEN, unknown) is None
    assert quotient(unknown, TEN) is None


def test_unknown_terms_make_the_result_unknown() -> None:
    assert difference(TEN, None) is None
    assert product(None, TEN) is None
