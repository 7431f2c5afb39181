"""Errors that are normal at each precision. Standard library only."""

from __future__ import annotations

import math

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error that a healthy eager run stays well under, per dtype."""

EAGER_LIMIT = 5.0

EPS = {"fp32": 2**-23, "tf32": 2**-10, "bf16": 2**-7, "fp16": 2**-10}
"""Distance from 1 to the next number, in the dtype that products are computed in."""

RELU_JUMP = 6.0
"""Times sqrt(EPS): how far gradients may be off where rounding switches ReLUs on or off. Of n ReLUs
about n x EPS / 2 switch, and each changes the gradients of its layer by about 1 / sqrt(n)."""


def eager_is_sane(error: float, dtype: str, trains: bool = False) -> bool:
    """Whether plain eager's error at this dtype is small enough to compare modes with it."""
    limit = EAGER_LIMIT * TOLERANCE[dtype]
    return math.isfinite(error) and error <= (max(limit, jump(dtype)) if trains else limit)


def jump(dtype: str) -> float:
    """The largest error that correct gradients can have at this dtype (`RELU_JUMP`)."""
    return RELU_JUMP * math.sqrt(EPS[dtype])
