"""Why a row cannot be recommended, whatever its speedup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analysis import numbers, words
from analysis.recommending.wishes import Wishes
from analysis.words import Row

# kind -> what so many rows are that are not chosen for it
KINDS = {
    "skipped": "skipped",
    "wrong": "wrong",
    "failed": "failed",
    "not_in_effect": "not in effect, or not known to have been",
    "smoke": "of a smoke budget only",
    "unchecked": "of unknown error",
    "baseline": "against a baseline that was wrong or not in effect",
    "no_interval": "without an interval",
    "memory": "over the memory limit",
    "memory_unknown": "of unknown memory",
    "first_call_unknown": "of unknown first call",
    "unpaid": "not known to pay for the first call within the calls asked for",
    "slower": "slower than the baseline",
    "no_difference": "without a difference that the interval shows",
    "noise": "not beyond what the baseline reads against itself",
    "less": "shown to be less than the chosen one",
}


@dataclass(frozen=True)
class _Rule:
    kind: str
    holds: Callable[[Row], bool]
    reason: Callable[[Row], str | None]


def _flagged(name: str) -> Callable[[Row], bool]:
    return lambda row: name in words.flags(row)


def _is_wrong(row: Row) -> bool:
    limit = words.accepted_error(row)
    return limit is not None and not row["error"] <= limit


# The first that holds is told. Flags about times are no reason: rounds of random order keep the
# ratio, and each is told beside it.
_RULES = (
    _Rule("skipped", lambda row: row["status"] == "skipped", words.ended),
    _Rule("wrong", lambda row: row["status"] == "wrong_result", words.ended),
    _Rule("failed", lambda row: row["status"] != "ok", words.ended),
    _Rule("not_in_effect", lambda row: not row["in_effect"], words.why_left_out),
    _Rule("smoke", words.is_smoke, words.why_left_out),
    _Rule("unchecked", lambda row: row["error"] is None, lambda row: "its error is not known"),
    _Rule(
        "wrong", _is_wrong,
        lambda row: f"its error of {numbers.scientific(row['error'])} is more than the accepted "
        f"{numbers.scientific(words.accepted_error(row))}",
    ),
    _Rule("baseline", _flagged("baseline_wrong"), lambda row: "the baseline's result is wrong"),
    _Rule(
        "baseline", _flagged("baseline_not_in_effect"),
        lambda row: "the baseline did not do what its name says",
    ),
    _Rule("no_interval", lambda row: row["speedup_ci_low"] is None, words.why_left_out),
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
    limit = f"the {numbers.limit(limit_bytes)} that are allowed"
    if fits is None:
        return "memory_unknown", f"not known to fit into {limit}"
    needed, where = max(_needed_bytes(row))
    return "memory", f"{where} needs {numbers.size(needed)} of {limit}"


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
    """The peaks that are known, above an empty process.

    To that of the first call, weights and inputs are added, which were there before. On a CPU it is
    the growth of the process, compiler included, which has to fit as well.
    """
    first = (row["setup_peak_bytes"], row["weights_bytes"], row["input_bytes"])
    steady = row["peak_bytes"]
    return [
        *([] if steady is None else [(float(steady), "a call")]),
        *([] if None in first else [(float(sum(first)), "the first call")]),
    ]
