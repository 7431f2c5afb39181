"""Limits of errors: the general one, and larger ones of single parameters."""

from __future__ import annotations

import math

import pytest

from modescope.bench.steps.checks import Deviation, Limit

LIMIT = Limit(error=1e-3, scale=0.01, larger={"gradient of a": 0.05, "gradient of b": 0.001})
A, B, C = (f"gradient of {each} in step 2" for each in "abc")


@pytest.mark.parametrize(
    ("scales", "worst", "accepted"),
    [
        ({}, None, True),
        ({A: 0.04, C: 0.009}, C, True),
        ({A: 0.06, C: 0.009}, A, False),
        ({B: 0.009}, B, True),  # its own limit never lowers the general one
        ({C: 0.04}, C, False),
        ({C: math.nan}, C, False),
    ],
)
def test_a_limit_of_a_parameter_holds_in_every_step(
    scales: dict[str, float], worst: str | None, accepted: bool
) -> None:
    found = Deviation(1e-4, None, scales)
    assert LIMIT.worst_scale(found).place == worst
    assert LIMIT.accepts(found) is accepted


@pytest.mark.parametrize(
    ("other", "covered"),
    [(Limit(1e-3, 0.01), True), (Limit(2e-3, 0.005), False), (Limit(5e-4, 0.02), False)],
)
def test_a_limit_covers_one_that_is_larger_in_nothing(other: Limit, covered: bool) -> None:
    assert LIMIT.covers(other) == covered
