"""Why results are not accepted or not judged, and what to do."""

from __future__ import annotations

import math

from modescope.bench.steps.check import Deviation, Limit
from modescope.bench.steps.correctness.draws import Comparison

GUIDE = "docs/how-to-read-a-report.md#a-wrong-result"

BY_ROUNDING = (
    "error_limit is what rounding alone can do to the gradients of this model, seen in perturbed "
    "float64 runs"
)


NO_SWITCH = (
    "the model draws random numbers, and neither dropout probabilities of 0 nor eval() of its "
    "parts switches them off"
)

DEPENDS = "its result depends on earlier calls"

REFERENCE = {"float64": "float64", "fp32": "eager in fp32", "own": "plain eager"}
"""What results are compared with, by the column `checked_against`."""

FROZEN = 1e-6
"""Of eager's variance: results that differ less from call to call are the same."""


def other_randomness(seen: Comparison) -> str:
    """The mode draws other random numbers than eager."""
    if not seen.finite:
        return "results are not finite in some calls, while those of eager are"
    if seen.spread < FROZEN:
        return (
            "each call has the same results, while those of eager differ from call to call: the "
            "mode drops the model's randomness (such as dropout) or repeats the same random numbers"
        )
    return (
        "the results are not spread as those of eager over repeated calls: "
        f"{seen.spread:.2g} times eager's variance, and means apart by {seen.shift:.2g} times it "
        f"(p = {seen.p_value:.1g}), so the mode's randomness (such as dropout) is another one"
    )


def unjudged(eager: Deviation, dtype: str) -> str:
    """No mode can be judged at `dtype`."""
    return (
        f"even eager at {dtype} has a relative error of {eager.error:.2g} against float64, so no "
        f"mode can be judged at this dtype; use a wider dtype{_accept(eager.error)} ({GUIDE})"
    )


def chaotic(limit: Limit, dtype: str) -> str:
    """Rounding alone changes gradients too much to judge any mode."""
    return (
        f"rounding at {dtype} alone can change the gradients of this model by {limit.error:.0%}, "
        "so no error can be told from it; a larger batch or a wider dtype helps"
    )


def wrong(found: Deviation, against: str, eager: Deviation | None, limit: Limit, dtype: str) -> str:
    """An error is beyond its limit; which, where, and how it compares with eager's."""
    reference, scale = REFERENCE[against], limit.worst_scale(found)
    if found.error <= limit.error:
        what = (
            f"the scale of the {scale.place} is off by {scale.value:.2g} of it against {reference}"
        )
        usual, accepted = eager and f", eager's by {eager.scale:.2g} at {dtype}", scale.limit
    else:
        at = f" in {found.place}" if found.place else ""
        what = f"relative error {found.error:.2g} against {reference}{at}"
        usual, accepted = eager and f", eager's is {eager.error:.2g} at {dtype}", limit.error
    return (
        f"{what}{usual or ''}; accepted is {accepted:.2g}; check whether seed=1 and another dtype "
        f"or mode show it too{_accept(found.error)} ({GUIDE})"
    )


def _accept(error: float) -> str:
    """How to accept `error`, as a clause; empty where the error is not finite."""
    if not math.isfinite(error):
        return ""
    return f", or accept the error with max_error={_rounded_up(error):.2g}"


def _rounded_up(error: float) -> float:
    """Two digits that are not below `error`."""
    step: float = 10.0 ** (math.floor(math.log10(error)) - 1)
    return math.ceil(error / step) * step
