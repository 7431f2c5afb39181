"""What rules are made of: steps, of which the first that refutes or is undecided decides.

What an observed value must be stands with its label, and a rule may add what takes several:

    figures={
        "full": "a full copy [B]",
        "dense": must("taken by [B]", 0, "no view of a dense tensor takes memory", "some do"),
        "sparse": should("taken by [B]", 0, "nor does a view of a sparse one"),
    },

Sentences come from these words and from labels, cases and values of what was observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.figures import Cases, Observed, number
from modescope.bench.tools.claims.verdict import (
    REFUTED,
    UNDECIDED,
    Verdict,
    holds,
    inconclusive,
    limited,
    refuted,
)

Rule = Iterator[Verdict]

NOTHING = holds("")
MOST_NAMED = 4


def decided(steps: Iterable[Verdict]) -> Verdict:
    """The first step that refutes or is undecided; else all of them in one."""
    texts: list[str] = []
    clauses: list[str] = []
    for step in steps:
        if step.answer in (REFUTED, UNDECIDED):
            return step
        texts += filter(None, [step.because])
        clauses += step.limits
    because = "; ".join(texts)
    return limited(because, *clauses) if clauses else holds(because)


@dataclass(frozen=True)
class Expected:
    """A figure that decides: what it is, what it has to be, and what follows if it is not."""

    label: str
    ok: Any  # a value, or a function that says so of one
    words: str
    otherwise: str  # what is said where it is not so
    step: Callable[[Expected, Cases], Verdict]

    @property
    def statement(self) -> str:
        """What is expected; without words for it, the label, with the value unless it is True."""
        if self.words:
            return self.words
        of_label = Cases.labelled(self.ok, self.label)
        return of_label.label.rstrip(",:") if self.ok is True else of_label.say_all()


def must(label: str, ok: object, words: str = "", otherwise: str = "") -> Expected:
    """Refuted unless each case is `ok`; `words` are needed where a label says no sentence."""
    return Expected(label, ok, words, otherwise, refuting)


def should(label: str, ok: object, words: str = "", otherwise: str = "") -> Expected:
    """Each case that is not `ok` is a limit; with `otherwise` they are one limit together."""
    return Expected(label, ok, words, otherwise, limiting)


def given(label: str, ok: object, words: str = "") -> Expected:
    """Undecided unless each case is `ok`, and if there is none."""
    return Expected(label, ok, words, "", enabling)


def must_lie(label: str, low: float, high: float, what: str) -> Expected:
    """Intervals of `what`, such as "host times", lie within `low` to `high`: see `between`."""
    lying = _range(low, high, Cases.labelled({}, label).unit)
    sentence = (
        f"Holds if the intervals of all {what} lie {lying}, within limits if some lie outside, "
        "refuted if all do. Undecided where that depends on an interval that is unknown or "
        "contains a bound."
    )
    return Expected(label, (low, high, what), sentence, "", placing)


def figure_labels(figures: Mapping[str, str | Expected]) -> dict[str, str]:
    """By name of the observed value."""
    return {name: e.label if isinstance(e, Expected) else e for name, e in figures.items()}


def figure_steps(figures: Mapping[str, str | Expected], o: Observed) -> Rule:
    """What the figures alone decide."""
    for name, each in figures.items():
        if isinstance(each, Expected):
            yield each.step(each, o.cases(name))


def rule_text(figures: Mapping[str, str | Expected], more: str) -> str:
    """The rule in words, with what is added to the figures alone."""
    kinds = {enabling: "Undecided unless", refuting: "Refuted unless", limiting: "A limit unless"}
    every = [each for each in figures.values() if isinstance(each, Expected)]
    lists = {how: [e.statement for e in every if e.step is step] for step, how in kinds.items()}
    ranges = [each.statement for each in every if each.step is placing]
    parts = [f"{how}: {'; '.join(statements)}." for how, statements in lists.items() if statements]
    return " ".join(filter(None, [*parts, *ranges, more]))


def refuting(each: Expected, cases: Cases) -> Verdict:
    """The step of `must`."""
    return expect(each.statement, cases, each.ok, each.otherwise)


def limiting(each: Expected, cases: Cases) -> Verdict:
    """The step of `should`."""
    wrong = failing(cases, each.ok)
    if each.otherwise:
        return limit_if(bool(wrong), _counted(each.otherwise, wrong, cases))
    return each_a_limit(wrong)


def enabling(each: Expected, cases: Cases) -> Verdict:
    """The step of `given`."""
    if not cases:
        return _unseen(each.statement)
    wrong = failing(cases, each.ok)
    return undecided_if(bool(wrong), f"needed: {each.statement}; observed: {wrong.say_first()}")


def placing(each: Expected, cases: Cases) -> Verdict:
    """The step of `must_lie`."""
    return between(cases, *each.ok)


def expect(statement: str, cases: Cases, ok: object = True, otherwise: str = "") -> Verdict:
    """Refuted by the first case that is not `ok`; undecided if there is none."""
    if not cases:
        return _unseen(statement)
    wrong = failing(cases, ok)
    if not wrong:
        return holds(_counted(statement, cases, cases))
    because = otherwise or f"contradicted: {statement}"
    return refuted(_counted(because, wrong, cases), wrong.say_first())


def _unseen(statement: str) -> Verdict:
    return inconclusive(f"nothing was observed of this: {statement}")


def _counted(sentence: str, some: Cases, cases: Cases) -> str:
    """With how many of several cases it is true of."""
    return f"{sentence} ({len(some)} of {len(cases)})" if cases.several else sentence


def each_a_limit(cases: Cases, where: str = "") -> Verdict:
    """Each case is a limit, behind the words `where`."""
    return replace(NOTHING, limits=tuple(where + cases.say(each) for each in cases))


def failing(cases: Cases, ok: object) -> Cases:
    """The cases that are not `ok`."""
    fits: Callable[[Any], object] = ok if callable(ok) else lambda value: value == ok
    return cases.only(lambda _, value: not fits(value))


def require(statement: str, so: bool, example: str, otherwise: str = "") -> Verdict:
    """Refuted by `example` unless `so`."""
    return holds(statement) if so else refuted(otherwise or f"contradicted: {statement}", example)


def limit_if(so: bool, clause: str) -> Verdict:
    """`clause` is a limit if `so`."""
    return replace(NOTHING, limits=(clause,)) if so else NOTHING


def undecided_if(so: bool, reason: str) -> Verdict:
    """Undecided for `reason` if `so`."""
    return inconclusive(reason) if so else NOTHING


@dataclass(frozen=True)
class Placed:
    """Estimates by where their intervals lie beside a range."""

    below: Cases
    within: Cases
    above: Cases
    unclear: Cases  # a bound lies inside the interval, or the interval is unknown


def placed(estimates: Cases, low: float, high: float) -> Placed:
    """Where each interval lies beside `low` to `high`."""

    def where(each: Estimate) -> str:
        if each.low is None or each.high is None:
            return "unclear"
        if each.high < low or each.low > high:
            return "below" if each.high < low else "above"
        return "within" if low <= each.low and each.high <= high else "unclear"

    def group(name: str) -> Cases:
        return estimates.only(lambda _, each: where(each) == name)

    return Placed(group("below"), group("within"), group("above"), group("unclear"))


def between(estimates: Cases, low: float, high: float, what: str) -> Verdict:
    """Holds if all intervals lie within `low` to `high`, within limits if some do.

    Refuted if all lie outside. Undecided if one that a bound cuts, or that is missing, would turn
    the answer, and if there are no estimates; where it cannot turn it, it is a limit.
    """
    groups, lying = placed(estimates, low, high), _range(low, high, estimates.unit)
    outside = [
        f"{len(some)} {where} {number(bound, estimates.unit)}: {extremes(some)}"
        for where, bound, some in (("below", low, groups.below), ("above", high, groups.above))
        if some
    ]
    cut = [unclear(groups.unclear, low, high)] if groups.unclear else []
    count = f"{len(groups.within)} of {len(estimates)} {what}"
    inside = f"{count} lie {lying}: {extremes(groups.within)}"
    if groups.within and outside:
        return limited(inside, *outside, *cut)
    if cut or not estimates:
        return inconclusive("; ".join(cut) or f"there are no {what}")
    if outside:
        return refuted(f"{count} lie {lying}", "; ".join(outside))
    return holds(inside)


def _range(low: float, high: float, unit: str) -> str:
    """`within 4× to 8×`, or `above 4×` where no value is too much."""
    least, most = (number(bound, unit) for bound in (low, high))
    return f"above {least}" if high == math.inf else f"within {least} to {most}"


def unclear(some: Cases, *bounds: float) -> str:
    """That each of these intervals contains a bound or is unknown."""
    named = " or ".join(number(bound, some.unit) for bound in bounds if math.isfinite(bound))
    return f"the interval contains {named} or is unknown: {extremes(some)}"


def extremes(some: Cases) -> str:
    """All of a few estimates without their intervals; of many the extremes."""
    order = sorted(some, key=lambda name: some[name].value)
    named = [f"{name} ({number(some[name].value, some.unit)})" for name in order]
    return ", ".join(named) if len(named) <= MOST_NAMED else f"from {named[0]} to {named[-1]}"


def converted(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """The estimate in another unit; `function` grows."""
    if estimate.low is None or estimate.high is None:
        return replace(estimate, value=function(estimate.value))
    return Estimate(*map(function, (estimate.value, estimate.low, estimate.high)))
