"""Errors that are normal at each precision. Standard library only."""

from __future__ import annotations

import math

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error that a healthy eager run stays well under, per dtype."""

EAGER_LIMIT = 5.0

EPS = {"fp32": 2**-23, "tf32": 2**-10, "bf16": 2**-7, "fp16": 2**-10}
"""Distance from 1 to the next number, in the dtype that products are computed in."""

ROUNDING_FACTOR = 3.0
"""Times the largest error of a few perturbed runs: the error that a correct step may have. Eager
and compiled steps of seven models had at most 1.5 times."""

SCALE_FACTOR = 5.0
"""Times the root mean square of perturbed runs: how far a correct gradient's scale may be off.
Where rounding switched ReLUs, eager steps had at most 1.1 times."""


def eager_is_sane(error: float, dtype: str) -> bool:
    """Whether plain eager's error at this dtype is small enough to compare modes with it."""
    return math.isfinite(error) and error <= EAGER_LIMIT * TOLERANCE[dtype]
