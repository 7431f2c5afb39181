"""Steps of rules: which verdict each gives, and in which words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims import lab, rules
from modescope.bench.tools.claims.figures import Cases
from modescope.bench.tools.claims.verdict import (
    UNDECIDED,
    Verdict,
    holds,
    inconclusive,
    limited,
    refuted,
)

TAKEN = Cases.labelled({"x.T": 0, "x[1:]": 2048}, "taken by [B]")
NONE = TAKEN.only(lambda _, value: value == 0)
ONE = Cases.labelled(3, "graphs")
CASE, GRAPHS = "taken by x[1:]: 2,048 B", "graphs: 3"
ROW = "taken by x.T: 0 B"


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        (lab.expect("nothing", NONE, 0), holds("nothing (1 of 1)")),
        (lab.expect("nothing", TAKEN, 0), refuted("contradicted: nothing (1 of 2)", CASE)),
        (lab.expect("nothing", TAKEN, 0, "some take"), refuted("some take (1 of 2)", CASE)),
        (lab.expect("few", TAKEN, lambda n: n < 9), refuted("contradicted: few (1 of 2)", CASE)),
        (lab.expect("three", ONE, 3), holds("three")),
        (lab.expect("two", ONE, 2), refuted("contradicted: two", GRAPHS)),
        (lab.expect("it", Cases({}), 0), inconclusive("nothing was observed of this: it")),
        (lab.each_a_limit(Cases({})), rules.NOTHING),
        (lab.each_a_limit(NONE), Verdict("holds", "", (ROW,))),
        (lab.each_a_limit(NONE, "sparse, "), Verdict("holds", "", (f"sparse, {ROW}",))),
        (lab.require("it is", True, "x"), holds("it is")),
        (lab.require("it is", False, "x"), refuted("contradicted: it is", "x")),
        (lab.require("it is", False, "x", "it is not"), refuted("it is not", "x")),
        (lab.limit_if(True, "not x"), Verdict("holds", "", ("not x",))),
        (lab.limit_if(False, "not x"), rules.NOTHING),
        (lab.undecided_if(True, "too short"), inconclusive("too short")),
        (lab.undecided_if(False, "too short"), rules.NOTHING),
    ],
)
def test_a_step_is_a_verdict(step: Verdict, verdict: Verdict) -> None:
    assert step == verdict


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (lab.must("", 0, "none"), refuted("contradicted: none (1 of 2)", CASE)),
        (lab.should("", 0, "none"), Verdict("holds", "", (CASE,))),
        (lab.should("", 0, "none", "some"), Verdict("holds", "", ("some (1 of 2)",))),
        (lab.given("", 0, "none"), inconclusive(f"needed: none; observed: {CASE}")),
    ],
)
def test_a_figure_is_a_step(figure: rules.Expected, verdict: Verdict) -> None:
    assert figure.step(figure, TAKEN) == verdict
    if figure.step is not rules.refuting:
        assert figure.step(figure, NONE) == rules.NOTHING


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        ([holds("a"), rules.NOTHING, holds("b")], holds("a; b")),
        ([holds("a"), lab.limit_if(True, "not c"), holds("b")], limited("a; b", "not c")),
        ([lab.limit_if(True, "c"), refuted("a", "b"), inconclusive("d")], refuted("a", "b")),
        ([holds("a"), inconclusive("d"), refuted("a", "b")], inconclusive("d")),
    ],
)
def test_the_first_that_refutes_or_is_undecided_decides(
    steps: list[Verdict], verdict: Verdict
) -> None:
    assert rules.decided(steps) == verdict


def test_nothing_is_computed_after_what_decides() -> None:
    def rule() -> lab.Rule:
        yield inconclusive("d")
        raise KeyError

    assert rules.decided(rule()).answer == UNDECIDED


def test_a_precondition_that_nobody_looked_at_is_not_met() -> None:
    figure = lab.given("", 0, "none")
    unseen = inconclusive("nothing was observed of this: none")
    assert figure.step(figure, Cases({})) == unseen


def test_a_rule_in_words() -> None:
    figures: dict[str, str | rules.Expected] = {
        "a": "a figure",
        "b": lab.must("taken by [B]", 0),
        "c": lab.must("graphs", lambda count: count > 1, "there are several graphs"),
        "d": lab.should("stale:", False, "it is not stale"),
        "e": lab.given("agree,", True),
        "f": lab.must_lie("time of [s]", 1e-6, 5e-6, "times"),
        "g": lab.must_lie("gain [x]", 1.5, math.inf, "gains"),
    }
    outside = (
        "within limits if some lie outside, refuted if all do. Undecided where that depends on an "
        "interval that is unknown or contains a bound."
    )
    assert rules.rule_text(figures, "More.") == (
        "Undecided unless: agree. Refuted unless: taken by: 0 B; there are several graphs. A limit "
        f"unless: it is not stale. Holds if the intervals of all times lie within 1 µs to 5 µs, "
        f"{outside} Holds if the intervals of all gains lie above 1.500×, {outside} More."
    )


def decided(*values: float | None, most: float = 5.0) -> Verdict:
    """One name per value, whose interval is 0.2 wide."""
    each: dict[str, Any] = {
        f"op {i}": Estimate(2.0, None, None) if x is None else Estimate(x, x - 0.1, x + 0.1)
        for i, x in enumerate(values)
    }
    return lab.between(Cases.labelled(each, "time of [s]"), 1.0, most, "times")


WITHIN = "1 of 3 times lie within 1 s to 5 s: op 0 (2 s)"
ABOVE = "1 above 5 s: op 2 (9 s)"
CUT = "the interval contains 1 s or 5 s or is unknown: op {}"
MANY = "5 of 5 times lie within 1 s to 5 s: from op 1 (2 s) to op 3 (4 s)"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([], inconclusive("there are no times")),
        ([2.0], holds("1 of 1 times lie within 1 s to 5 s: op 0 (2 s)")),
        ([2.0, 0.5, 9.0], limited(WITHIN, "1 below 1 s: op 1 (500 ms)", ABOVE)),
        ([2.0, 5.0, 9.0], limited(WITHIN, ABOVE, CUT.format("1 (5 s)"))),
        ([2.0, 5.0], inconclusive(CUT.format("1 (5 s)"))),
        ([None], inconclusive(CUT.format("0 (2 s)"))),
        ([9.0], refuted("0 of 1 times lie within 1 s to 5 s", "1 above 5 s: op 0 (9 s)")),
        ([2.5, 2.0, 3.0, 4.0, 3.5], holds(MANY)),
    ],
)
def test_a_range_decides(values: list[float | None], verdict: Verdict) -> None:
    assert decided(*values) == verdict


def test_a_range_may_have_no_end() -> None:
    assert decided(2.0, 9.0, most=math.inf) == holds(
        "2 of 2 times lie above 1 s: op 0 (2 s), op 1 (9 s)"
    )
    cut = inconclusive("the interval contains 1 s or is unknown: op 0 (1 s)")
    assert decided(1.0, most=math.inf) == cut


@pytest.mark.parametrize("bounds", [(1.0, 3.0), (None, None)])
def test_an_estimate_in_another_unit(bounds: tuple[float | None, float | None]) -> None:
    low, high = bounds
    result = lab.converted(Estimate(2.0, low, high), lambda value: 10 * value)
    assert result == Estimate(20.0, low and 10 * low, high and 10 * high)


def test_a_function_is_the_code_that_names_it() -> None:
    made = lab.functions("x", ["x + 1"]) | lab.functions(
        "x", {"loop": "for _ in range(2): x = twice(x)\nreturn x"}, twice=lambda x: 2 * x
    )
    assert {code: function(3) for code, function in made.items()} == {"x + 1": 4, "loop": 12}
