"""A claim: a statement, where it is made, and the function that checks it on a device.

The function returns an `Answer`: the verdict with its reason and limits, the numbers that were
observed, and the counter-example of a refuted statement.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from modescope.bench.devices.devices import Hardware
from modescope.bench.stats.estimates import Estimate
from modescope.bench.text.tables import UNKNOWN, seconds

HOLDS, WITHIN_LIMITS = "holds", "holds_within_limits"
REFUTED, UNDECIDED = "refuted", "undecided"

DEVICES = ("cpu", "cuda")
COMPILERS = ("compiler", "inductor")

Value = Estimate | float | str | tuple[int, ...] | None
Numbers = Mapping[str, Value]
"""What was observed, by label. A unit stands in brackets at the end: `taken by x.T [B]`."""


@dataclass(frozen=True)
class Answer:
    """What a device says to a statement."""

    verdict: str  # HOLDS, WITHIN_LIMITS, REFUTED or UNDECIDED
    because: str  # one sentence
    numbers: Numbers = field(default_factory=dict)
    limits: tuple[str, ...] = ()  # where it does not hold
    counter_example: str | None = None  # of a refuted one


def judged(
    because: str, numbers: Numbers, wrong: Numbers | str, limits: Sequence[str] = ()
) -> Answer:
    """Refuted if anything is `wrong`, the counter-example; else it holds, but for the `limits`."""
    if wrong:
        example = wrong if isinstance(wrong, str) else say(wrong)
        return Answer(REFUTED, f"contradicted: {because}", numbers, counter_example=example)
    return Answer(WITHIN_LIMITS if limits else HOLDS, because, numbers, tuple(limits))


def undecided(because: str, numbers: Numbers) -> Answer:
    """What was observed allows no verdict."""
    return Answer(UNDECIDED, because, numbers)


def side(estimate: Estimate, low: float, high: float) -> str:
    """`below`, `within` or `above` the range.

    `unclear` if a bound lies inside the interval or there is no interval.
    """
    if estimate.low is None or estimate.high is None:
        return "unclear"
    if estimate.high < low:
        return "below"
    if estimate.low > high:
        return "above"
    return "within" if low <= estimate.low and estimate.high <= high else "unclear"


def on_side(estimates: Mapping[str, Estimate], which: str, low: float, high: float) -> Numbers:
    """Those that lie on a `side` of the range."""
    return {label: e for label, e in estimates.items() if side(e, low, high) == which}


def in_range(estimates: Mapping[str, Estimate], low: float, high: float) -> Answer:
    """Holds if all intervals lie within the range, within limits if some do, refuted if none does.

    Undecided if an unclear interval could change that, or if there are no estimates.
    """
    within, below, above, unclear = (
        on_side(estimates, which, low, high) for which in ("within", "below", "above", "unclear")
    )
    unit = split_unit(next(iter(estimates), ""))[1]
    least, most = in_unit(low, unit), in_unit(high, unit)
    lie = f"lie above {least}" if high == math.inf else f"lie within {least} to {most}"
    because = f"{len(within)} of {len(estimates)} {lie}"
    outside = {**below, **above}
    if within and outside:
        limits = [say({label: value}) for label, value in {**outside, **unclear}.items()]
        return judged(because, estimates, {}, limits)
    if unclear or not estimates:
        return undecided(f"an interval contains a bound or is unknown: {say(unclear)}", estimates)
    return judged(because, estimates, outside)


def combined(answers: Mapping[str, Answer]) -> Answer:
    """One answer, without numbers, from those of several devices.

    If they differ, it holds within limits that name the device. Undecided ones count only if all
    are.
    """
    decided = {device: a for device, a in answers.items() if a.verdict != UNDECIDED} or answers
    others = {device: a for device, a in answers.items() if device not in decided}
    left_out = [f"on {device}: undecided, {a.because}" for device, a in others.items()]
    if len(decided) == 1:
        answer = next(iter(decided.values()))
        return replace(answer, because="; ".join([answer.because, *left_out]), numbers={})
    because = "; ".join([*(f"on {d}: {a.because}" for d, a in decided.items()), *left_out])
    examples = {d: a.counter_example for d, a in decided.items() if a.counter_example}
    against = [f"on {device}: {example}" for device, example in examples.items()]
    verdicts = {answer.verdict for answer in decided.values()}
    if verdicts == {REFUTED}:
        return Answer(REFUTED, because, counter_example="; ".join(against))
    if verdicts in ({HOLDS}, {UNDECIDED}):
        return Answer(verdicts.pop(), because)
    limits = [f"on {device}: {each}" for device, a in decided.items() for each in a.limits]
    return Answer(WITHIN_LIMITS, because, limits=(*limits, *(f"not {each}" for each in against)))


@dataclass(frozen=True)
class Claim:
    """A statement of a document and its check."""

    id: str
    statement: str  # as in the document
    source: tuple[str, ...]  # "003 §6": a key of `checking.DOCUMENTS`, and the place there
    needs: tuple[str, ...]  # of DEVICES, one of which is enough, and of COMPILERS
    check: Callable[[Hardware], Answer]
    method: str  # what is measured, and what decides
    snippet: str  # Python to paste, which prints something
    timed: bool  # decided by durations

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it can be checked."""
        return tuple(need for need in self.needs if need in DEVICES)

    @property
    def compilers(self) -> tuple[str, ...]:
        """What it waits for."""
        return tuple(need for need in self.needs if need in COMPILERS)


def claim(
    statement: str, source: str, *, snippet: str, needs: str = "cpu", timed: bool = False
) -> Callable[[Callable[[Hardware], Answer]], Claim]:
    """Makes a `Claim` of the function that checks it: its name is the id, its docstring the method.

    Sources are separated by "; ", needs by spaces.
    """

    def made(check: Callable[[Hardware], Answer]) -> Claim:
        id, method = check.__name__.replace("_", "-"), " ".join((check.__doc__ or "").split())
        sources, text = tuple(source.split("; ")), inspect.cleandoc(snippet)
        return Claim(id, statement, sources, tuple(needs.split()), check, method, text, timed)

    return made


def say(numbers: Numbers) -> str:
    """`label: value` of each, with units."""
    named = ((*split_unit(label), value) for label, value in numbers.items())
    return ", ".join(f"{label}: {written(value, unit)}" for label, unit, value in named)


def split_unit(label: str) -> tuple[str, str]:
    """A label without its unit, and the unit, which may be empty."""
    found = re.fullmatch(r"(.*?)(?: \[(\w+)\])?", label)
    assert found
    return found[1], found[2] or ""


def written(value: Value, unit: str) -> str:
    """A value with its interval and unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Estimate):
        text = in_unit(value.value, unit)
        if value.low is None or value.high is None:
            return text
        return f"{text} [{in_unit(value.low, unit)}, {in_unit(value.high, unit)}]"
    if isinstance(value, int | float):
        return in_unit(value, unit)
    return UNKNOWN if value is None else str(value)


def in_unit(value: float, unit: str) -> str:
    """`31.4 µs`, `1.063×`, `8 %`, `4,096 B`, or a count."""
    if unit == "s":
        return seconds(value)
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "x":
        return f"{value:.4g}×"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
    return f"{number} {unit}".strip()
