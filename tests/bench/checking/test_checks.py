"""What a limit accepts: errors up to it and at it, and no number that is none."""

from __future__ import annotations

import math

import pytest

from modescope.bench.checking.checks import Deviation, Limit

PLACE = "gradient of weight"


@pytest.mark.parametrize(
    ("limit", "error", "accepted"),
    [(0.0, 0.0, True), (1e-3, 1e-3, True), (1e-3, 1.1e-3, False), (1e-3, math.nan, False)],
)
def test_an_error_at_the_limit_is_accepted(limit: float, error: float, accepted: bool) -> None:
    assert Limit(limit).accepts(Deviation(error, PLACE)) is accepted


@pytest.mark.parametrize(("scale", "accepted"), [(0.02, True), (0.021, False)])
def test_a_scale_at_the_limit_is_accepted(scale: float, accepted: bool) -> None:
    found = Deviation(0.0, None, {PLACE: scale})
    assert Limit(1.0, 0.02).accepts(found) is accepted


@pytest.mark.parametrize(
    ("error", "scale", "covers"),
    [(1.0, 0.5, True), (0.9, 0.4, True), (1.1, 0.5, False), (1.0, 0.6, False)],
)
def test_a_limit_covers_one_that_is_no_larger(error: float, scale: float, covers: bool) -> None:
    assert Limit(1.0, 0.5).covers(Limit(error, scale)) is covers
