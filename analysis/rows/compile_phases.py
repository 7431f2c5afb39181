"""The phases of compiling in a first call, as torch recorded them."""

from __future__ import annotations

import json

from modescope.analysis.format.phrases import Row

REST_OF_CALL = "rest"
"""The first call without torch's phases: building, guards, capturing, running for the first time.
"""


def phases_of(row: Row) -> dict[str, float]:
    """Seconds of each phase that took any time, in their order; none where unknown."""
    stored = row["compile_phases_s"]
    return {name: s for name, s in (json.loads(stored) if stored else {}).items() if s > 0}


def with_rest(row: Row) -> dict[str, float]:
    """`phases_of` and REST_OF_CALL, which add up to the first call."""
    phases = phases_of(row)
    rest_s = (row["first_call_s"] or 0.0) - sum(phases.values())
    return phases | ({REST_OF_CALL: rest_s} if rest_s > 0 else {})
