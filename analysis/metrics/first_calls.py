"""How much longer the first call of a mode takes than its baseline's, if that is known.

Each first call is measured once. Compiling, autotuning and capturing take tens of milliseconds to
seconds in every process. A mode without any of them runs operators as its baseline does, so a
longer first call may be chance.
"""

from __future__ import annotations

from modescope.analysis.format.phrases import Row

# A single reading depends on other load of the machine: less than a factor of two, or less than
# 0.1 s, counts as no difference.
FACTOR, SECONDS = 2.0, 0.1


def builds(row: Row) -> bool:
    """Whether the first call compiles or captures something for later calls."""
    return bool(row["compile_mode"] != "none" or row["graph"])


def extra_s(row: Row, baseline_s: float | None) -> float | None:
    """The excess of the first call over the baseline's, at least 0; None where unknown.

    0 for a mode that builds nothing; None if its reading exceeds the baseline's by FACTOR and by
    SECONDS, because one reading cannot separate the mode from the machine.
    """
    first_s = row["first_call_s"]
    if first_s is None or baseline_s is None:
        return None
    extra = max(0.0, float(first_s) - float(baseline_s))
    if builds(row):
        return extra
    return 0.0 if first_s <= max(FACTOR * baseline_s, baseline_s + SECONDS) else None
