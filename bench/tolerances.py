"""How much error each precision explains.

Standard library only.
"""

from __future__ import annotations

import math

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error that a healthy eager run stays well under, per dtype."""

EAGER_LIMIT = 5.0

EPS = {"fp32": 2**-23, "tf32": 2**-10, "bf16": 2**-7, "fp16": 2**-10}
"""From 1 to the next number of the dtype that products are computed in."""

KINK = 6.0
"""Times the root of EPS: how far a gradient may jump where rounding turns ReLUs on or off. Of n of
them about n x EPS / 2 do, and each changes the gradients of its layer by about 1 / sqrt(n)."""


def eager_is_sane(error: float, dtype: str, trains: bool = False) -> bool:
    """Whether plain eager itself computes, or learns, something at this dtype."""
    limit = EAGER_LIMIT * TOLERANCE[dtype]
    return math.isfinite(error) and error <= (max(limit, jump(dtype)) if trains else limit)


def jump(dtype: str) -> float:
    """The largest error of gradients that are as right as they can be at this dtype."""
    return KINK * math.sqrt(EPS[dtype])
