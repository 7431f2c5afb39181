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
