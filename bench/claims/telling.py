"""Answers and figures in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from bench.claims.asking import SKIPPED, Answer
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from bench.claims.seen import Figure
from bench.pages import UNKNOWN, seconds

NAMES = {
    HOLDS: "holds",
    WITHIN_LIMITS: "within limits",
    REFUTED: "refuted",
    UNDECIDED: "undecided",
}
NOT_RUN = "not run here"


def summary(answers: Sequence[Answer]) -> str:
    """`of 44 statements 27 hold, 9 within limits, 5 are refuted, 3 undecided here`"""
    counts = Counter(answer.verdict for answer in answers)
    refuted = counts[REFUTED]
    told = [
        f"{counts[HOLDS]} {'holds' if counts[HOLDS] == 1 else 'hold'}",
        f"{counts[WITHIN_LIMITS]} within limits",
        f"{refuted} {'is' if refuted == 1 else 'are'} refuted",
        f"{counts[UNDECIDED]} undecided here",
    ]
    return f"of {len(answers)} {_plural('statement', len(answers))} {', '.join(told)}"


def failures(answers: Sequence[Answer]) -> list[str]:
    """A line for each claim whose experiment or snippet did not end as it should."""
    return [
        f"{answer.claim}: {answer.status}, {answer.reason}"
        for answer in answers
        if answer.status not in ("ok", SKIPPED)
    ]


def line(answer: Answer) -> str:
    """An answer for a terminal."""
    against = [answer.counter_example] if answer.counter_example else []
    told = f"{NAMES[answer.verdict]:13}  {answer.claim}: {answer.because}"
    return "\n".join([told, *(f"{'':15}{each}" for each in (*answer.limits, *against))])


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def figure(each: Figure) -> str:
    """A figure with its interval and unit."""
    if each.number is None:
        return UNKNOWN if each.text is None else each.text
    if each.low is None or each.high is None:
        return number(each.number, each.unit)
    low, high = number(each.low, each.unit), number(each.high, each.unit)
    return f"{number(each.number, each.unit)} [{low}, {high}]"


def number(value: float, unit: str) -> str:
    """`value` in a unit of `UNITS`; another one stands behind it."""
    written = UNITS.get(unit)
    return written(value) if written else f"{_plain(value)} {unit}"


def _plain(value: float) -> str:
    """Whole numbers as they are, others with four digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


# unit -> how a number in it is written
UNITS: dict[str, Callable[[float], str]] = {
    "": _plain,
    "s": seconds,
    "x": lambda value: f"{value:.3f}×",
    "share": lambda value: f"{100 * value:.3g} %",
}
