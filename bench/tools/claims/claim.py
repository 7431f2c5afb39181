"""A claim: a statement, its source, and the function that tests it on a device."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modescope.bench.devices.devices import Hardware
from modescope.bench.stats.estimates import Estimate

HOLDS, WITHIN_LIMITS = "holds", "holds_within_limits"
REFUTED, UNDECIDED = "refuted", "undecided"

SLOW = ("clock", "compiler", "inductor")
"""Needs that make a test slow: a quiet machine (clock), a C++ compiler, code of torch.compile."""

Numbers = Mapping[str, object]
"""What was observed, by label: an estimate, number, truth value or text. Labels name units."""


@dataclass(frozen=True)
class Answer:
    """The result of testing a statement on a device.

    `because` is the reason for the verdict. `numbers` are what was observed, by label.
    """

    verdict: str  # HOLDS, WITHIN_LIMITS, REFUTED or UNDECIDED
    because: str  # one sentence
    numbers: Numbers
    limits: tuple[str, ...] = ()  # cases in which the statement does not hold
    counter_example: str | None = None  # None unless refuted


def holds(because: str, numbers: Numbers, limits: Sequence[str] = ()) -> Answer:
    """Returns the answer that the statement holds, within `limits` if there are any."""
    return Answer(WITHIN_LIMITS if limits else HOLDS, because, numbers, tuple(limits))


def refuted(because: str, numbers: Numbers, wrong: Numbers | None = None) -> Answer:
    """Returns the answer that the statement is refuted. `numbers`: all that was observed.

    `wrong`: those of them that refute it, shown as counter-example; None: all do.
    """
    return Answer(REFUTED, because, numbers, counter_example=say(wrong or numbers))


def undecided(because: str, numbers: Numbers) -> Answer:
    """Returns the answer that the observations allow no verdict."""
    return Answer(UNDECIDED, because, numbers)


def side(estimate: Estimate, low: float, high: float) -> str:
    """Returns whether the interval lies `below`, `within` or `above` the range `low` to `high`.

    `unclear` if the interval contains an end of the range, or is unknown.
    """
    if estimate.low is None or estimate.high is None:
        return "unclear"
    if estimate.high < low:
        return "below"
    if estimate.low > high:
        return "above"
    return "within" if low <= estimate.low and estimate.high <= high else "unclear"


def in_range(
    estimates: Mapping[str, Estimate], low: float, high: float, more: Numbers | None = None
) -> Answer:
    """Returns the answer to the statement that all `estimates` lie between `low` and `high`.

    It holds if all intervals lie in that range, holds within limits if some do, and is refuted if
    none does. It is undecided if an interval contains an end of the range and so could change that.
    `more` are further numbers for the page.
    """
    numbers = {**estimates, **(more or {})}
    sides = {label: side(estimate, low, high) for label, estimate in estimates.items()}
    within = [label for label in sides if sides[label] == "within"]
    outside = {label: estimates[label] for label in sides if sides[label] in ("below", "above")}
    words = f"above {low:g}" if high == math.inf else f"within {low:g} to {high:g}"
    because = f"{len(within)} of {len(sides)} lie {words}"
    if within and outside:
        limits = [say({label: estimates[label]}) for label in sides if label not in within]
        return holds(because, numbers, limits)
    if not sides or "unclear" in sides.values():
        return undecided(f"{because}, and an interval contains a bound or is unknown", numbers)
    return refuted(because, numbers, outside) if outside else holds(because, numbers)


@dataclass(frozen=True)
class Claim:
    """A statement of a document and its test.

    `needs` are words separated by spaces: `cpu` or `cuda` for each kind of device on which it can
    be tested, and those of SLOW that hold for the test.
    """

    id: str
    statement: str  # as in the document
    source: str  # "003 §6; 000 .view": keys of `page.DOCUMENTS`, and the places there
    needs: str  # words: the devices that will do (cpu, cuda), and what of SLOW the test needs
    check: Callable[[Hardware], Answer]
    method: str  # what is measured, and what decides beyond the statement
    snippet: str  # Python to paste, at most ten lines, which prints the same each time

    @property
    def slow(self) -> bool:
        """Whether the test times or compiles something."""
        return any(need in SLOW for need in self.needs.split())


def claim(
    statement: str, source: str, needs: str = "cpu"
) -> Callable[[Callable[[Hardware], Answer]], Claim]:
    """Returns a decorator that turns the function that tests a statement into a `Claim`.

    `statement`, `source` and `needs` are fields of the claim. The function's name becomes its id.
    The docstring becomes the method, and from the first paragraph that begins with an import on,
    the snippet.
    """

    def decorate(check: Callable[[Hardware], Answer]) -> Claim:
        method, snippet = re.split(r"\n\n(?=import )", inspect.getdoc(check) or "")
        id, method = check.__name__.replace("_", "-"), " ".join(method.split())
        return Claim(id, statement, source, needs, check, method, snippet)

    return decorate


def say(numbers: Numbers) -> str:
    """Returns all numbers as one text: `label: value, label: value`."""
    return ", ".join(f"{label}: {show(value)}" for label, value in numbers.items())


def show(value: object) -> str:
    """Returns a value as text: `4,096`, `1.063 [1.05, 1.07]`, `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Estimate):
        if value.low is None or value.high is None:
            return show(value.value)
        return f"{value.value:.4g} [{value.low:.4g}, {value.high:.4g}]"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
    return str(value)
