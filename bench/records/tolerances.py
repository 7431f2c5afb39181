"""The errors that are normal at each dtype. Standard library only."""

from __future__ import annotations

import math

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf32": 1e-2, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error per dtype that plain eager stays well below in a model without problems."""

QUANTIZED = {"int8-weights": 2e-2, "int8-dynamic": 5e-2, "fp8-dynamic": 0.1, "int4-weights": 0.3}
"""The same for weights of fewer bits (mode.quantize), which is accepted beside what is usual at the
dtype. int8 weights had 4.4e-3 in the MLP and 1.2e-3 in the transformer block, int8-dynamic 1.1e-2
and 3.1e-3; a scale that is off by a tenth has 0.1. Those of fp8 and int4 are from the spacing of
their numbers, and unproven."""

EAGER_LIMIT = 5.0
"""Plain eager's error must be at most EAGER_LIMIT × TOLERANCE for other modes to be compared with
it."""

EPS = {"fp32": 2**-23, "tf32": 2**-10, "bf32": 2**-7, "bf16": 2**-7, "fp16": 2**-10}
"""Distance from 1 to the next larger number, in the dtype in which products are computed."""

ROUNDING_FACTOR = 3.0
"""A correct step's error is at most ROUNDING_FACTOR × the largest error of a few perturbed runs.
Eager and compiled steps of seven models had at most 1.5 × that error."""

SCALE_FACTOR = 5.0
"""A correct gradient's scale error is at most SCALE_FACTOR × the RMS scale error of perturbed runs.
When rounding switched ReLUs, eager steps had at most 1.1 × that error."""


def eager_is_sane(error: float, dtype: str) -> bool:
    """Whether plain eager computes accurately enough for other modes to be compared with it.

    `error`: relative RMS difference of its results from float64; `dtype`: its precision, which sets
    the limit (EAGER_LIMIT × TOLERANCE).
    """
    return math.isfinite(error) and error <= EAGER_LIMIT * TOLERANCE[dtype]
