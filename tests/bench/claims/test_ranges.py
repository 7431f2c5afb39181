"""Intervals beside a range that a statement names."""

from __future__ import annotations

import math

import pytest

from bench.claims import ranges
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS, Verdict
from bench.stats import Estimate

LOW, HIGH = 1.0, 5.0


@pytest.mark.parametrize(
    ("low", "high", "where"),
    [
        (0.1, 0.9, "below"),
        (1.0, 5.0, "within"),
        (5.1, 6.0, "above"),
        (0.9, 1.1, "undecided"),
        (4.9, 5.1, "undecided"),
        (0.9, 5.1, "undecided"),
        (None, None, "undecided"),
    ],
)
def test_an_interval_is_placed(low: float | None, high: float | None, where: str) -> None:
    found = ranges.placed({"it": Estimate(2.0, low, high)}, LOW, HIGH)
    assert {name: list(some) for name, some in vars(found).items() if some} == {where: ["it"]}


def test_an_interval_that_is_too_wide_says_nothing() -> None:
    wide = {"it": Estimate(0.0, -9.0, 0.5)}
    assert ranges.placed(wide, -math.inf, LOW).within
    assert ranges.placed(wide, -math.inf, LOW, widest=5.0).undecided


def decided(*values: float) -> Verdict:
    """One name per value, whose interval is 0.2 wide."""
    each = {f"op {value:g}": Estimate(value, value - 0.1, value + 0.1) for value in values}
    found = ranges.placed(each, LOW, HIGH)
    return ranges.verdict(found, ("1 s", "5 s"), lambda value: f"{value:.1f} s")


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([], UNDECIDED),
        ([2.0, 4.0], HOLDS),
        ([2.0, 9.0], WITHIN_LIMITS),
        ([2.0, 9.0, 5.0], WITHIN_LIMITS),  # both sides are there, whatever the third is
        ([0.5, 9.0], REFUTED),
        ([2.0, 5.0], UNDECIDED),
        ([9.0, 5.0], UNDECIDED),
    ],
)
def test_a_range_decides(values: list[float], answer: str) -> None:
    assert decided(*values).answer == answer


def test_limits_say_on_which_side() -> None:
    verdict = decided(2.0, 0.5, 9.0)
    assert verdict.because == "1 of 3 within 1 s to 5 s: op 2 (2.0 s)"
    assert verdict.limits == ("1 below 1 s: op 0.5 (0.5 s)", "1 above 5 s: op 9 (9.0 s)")


def test_what_a_bound_cuts_is_named_beside_the_rest() -> None:
    cut = "the interval has 1 s or 5 s inside, or there is none: op 5 (5.0 s)"
    assert decided(2.0, 9.0, 5.0).limits == ("1 above 5 s: op 9 (9.0 s)", cut)


def test_of_many_the_extremes_are_named() -> None:
    verdict = decided(2.5, 2.0, 3.0, 4.0, 3.5)
    assert verdict.because == "5 of 5 within 1 s to 5 s: from op 2 (2.0 s) to op 4 (4.0 s)"


@pytest.mark.parametrize("bounds", [(1.0, 3.0), (None, None)])
def test_an_estimate_in_another_unit(bounds: tuple[float | None, float | None]) -> None:
    low, high = bounds
    found = ranges.converted(Estimate(2.0, low, high), lambda value: 10 * value)
    assert found == Estimate(20.0, low and 10 * low, high and 10 * high)
