"""How much dearer is the first call of a mode than that of its baseline, as far as that is known?

Each first call is read once. What it takes to compile, to autotune and to capture is seconds or
tens of milliseconds and is there in every process. A mode that does none of this runs operators as
its baseline does: what its first call takes more is the chance of one reading.
"""

from __future__ import annotations

from analysis.words import Row

# One reading depends on the machine's other work: less than a factor of two is no difference, nor
# is what nobody notices.
FACTOR, SECONDS = 2.0, 0.1


def builds(row: Row) -> bool:
    """Whether the first call compiles or captures something for those that follow."""
    return bool(row["compile"] != "none" or row["graph"])


def extra_s(row: Row, baseline_s: float | None) -> float | None:
    """What the first call takes beyond the baseline's, at least 0; None where it is not known.

    0 for a mode that builds nothing, unless its reading is more than FACTOR times and SECONDS
    above the baseline's: whether that was the machine or the mode, one reading does not say.
    """
    first_s = row["first_call_s"]
    if first_s is None or baseline_s is None:
        return None
    extra = max(0.0, float(first_s) - float(baseline_s))
    if builds(row):
        return extra
    return 0.0 if first_s <= max(FACTOR * baseline_s, baseline_s + SECONDS) else None
