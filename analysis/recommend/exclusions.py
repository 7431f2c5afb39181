"""The rules that exclude a row from recommendation, whatever its speedup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend.constraints import Wishes

# kind of exclusion -> its words after a count: `2 skipped, 1 over the memory limit`
KINDS = {
    "skipped": "skipped",
    "wrong": "wrong",
    "failed": "failed",
    "not_in_effect": "not in effect, or not known to be",
    "smoke": "with a smoke budget only",
    "unchecked": "with unknown error",
    "baseline": "with a baseline that was wrong or not in effect",
    "no_interval": "without an interval",
    "memory": "over the memory limit",
    "memory_unknown": "with unknown memory",
    "first_call_unknown": "with an unknown first call",
    "unpaid": "not shown to pay for the first call within the requested calls",
    "slower": "slower than the baseline",
    "no_difference": "with no difference shown by the interval",
    "noise": "not shown to be above the noise floor of the baseline",
    "less": "with less gain than the recommended mode",
    "open": "too uncertain to tell from the recommended mode",
}


@dataclass(frozen=True)
class _Rule:
    kind: str
    holds: Callable[[Row], bool]
    reason: Callable[[Row], str | None]


def _flagged(name: str) -> Callable[[Row], bool]:
    return lambda row: name in phrases.flags(row)


def _is_unknown(row: Row) -> bool:
    """Whether the error is unknown without a reason; one that could not be judged has a reason."""
    return row["error"] is None and not phrases.unchecked(row)


def _is_wrong(row: Row) -> bool:
    limit = phrases.accepted_error(row)
    judged = limit is not None and not phrases.unchecked(row)
    return judged and not row["error"] <= limit


# The first rule that holds is the reason. Timing flags exclude nothing: rounds in random order keep
# the ratio valid, and each flag is reported with it.
_RULES = (
    _Rule("skipped", lambda row: row["status"] == "skipped", phrases.ended),
    _Rule("wrong", lambda row: row["status"] == "wrong_result", phrases.ended),
    _Rule("failed", lambda row: row["status"] != "ok", phrases.ended),
    _Rule("not_in_effect", lambda row: not row["in_effect"], phrases.why_left_out),
    _Rule("smoke", phrases.is_smoke, phrases.why_left_out),
    _Rule("unchecked", _is_unknown, lambda row: "its error is unknown"),
    _Rule(
        "wrong", _is_wrong,
        lambda row: f"its error of {numbers.scientific(row['error'])} is above the limit of "
        f"{numbers.scientific(phrases.accepted_error(row))}",
    ),
    _Rule("baseline", _flagged("baseline_wrong"), lambda row: "the baseline's result is wrong"),
    _Rule(
        "baseline", _flagged("baseline_not_in_effect"),
        lambda row: "the baseline did not do what its name says",
    ),
    _Rule("no_interval", lambda row: row["speedup_ci_low"] is None, phrases.why_left_out),
)  # fmt: skip


def refusal(row: Row, wishes: Wishes) -> tuple[str, str] | None:
    """Kind and reason for a row that cannot be recommended; None for one that can."""
    for rule in _RULES:
        if rule.holds(row):
            return rule.kind, rule.reason(row) or "no reason was recorded"
    return over_limit(row, wishes.memory_limit_bytes)


def over_limit(row: Row, limit_bytes: int | None) -> tuple[str, str] | None:
    """Kind and reason where a row needs more than the limit, or is not known to need less."""
    if limit_bytes is None or (fits := fits_into(row, limit_bytes)):
        return None
    limit = f"the limit of {numbers.limit(limit_bytes)}"
    if fits is None:
        return "memory_unknown", f"not known to fit into {limit}"
    needed, where = max(_needed_bytes(row))
    return "memory", f"{where} needs {numbers.size(needed)}, more than {limit}"


def fits_into(row: Row | None, limit_bytes: int | None) -> bool | None:
    """Whether a row needs no more than the limit; None where that is unknown."""
    if limit_bytes is None:
        return True
    if row is None:
        return None
    if any(needed > limit_bytes for needed, _ in _needed_bytes(row)):
        return False
    return None if row["peak_bytes"] is None else True


def _needed_bytes(row: Row) -> list[tuple[float, str]]:
    """The known peaks above an empty process.

    Weights and inputs, allocated earlier, are added to the first call's peak. On a CPU that peak is
    the growth of the process, compiler included, which has to fit as well.
    """
    first = (row["setup_peak_bytes"], row["weights_bytes"], row["input_bytes"])
    steady = row["peak_bytes"]
    return [
        *([] if steady is None else [(float(steady), "a call")]),
        *([] if None in first else [(float(sum(first)), "the first call")]),
    ]
