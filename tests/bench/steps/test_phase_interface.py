"""Limits of errors: the general one, and larger ones of single parameters."""

from __future__ import annotations

import math

import pytest

from modescope.bench.steps.phase_interface import Deviation, Limit

LIMIT = Limit(error=1e-3, scale=0.01, larger={"gradient of a": 0.05, "gradient of b": 0.001})


@pytest.mark.parametrize(
    ("scales", "worst", "accepted"),
    [
        ({}, None, True),
        ({"gradient of a in step 2": 0.04}, "gradient of a in step 2", True),
        ({"gradient of a in step 2": 0.06}, "gradient of a in step 2", False),
        (
            {"gradient of a": 0.04, "gradient of c in step 1": 0.009},
            "gradient of c in step 1",
            True,
        ),
        ({"gradient of b in step 1": 0.009}, "gradient of b in step 1", True),  # never smaller
        ({"gradient of c in step 3": 0.04}, "gradient of c in step 3", False),
        ({"gradient of c": math.nan}, "gradient of c", False),
    ],
)
def test_a_limit_of_a_parameter_holds_in_every_step(
    scales: dict[str, float], worst: str | None, accepted: bool
) -> None:
    found = Deviation(1e-4, None, scales)
    assert LIMIT.worst_scale(found).place == worst
    assert LIMIT.accepts(found) is accepted
