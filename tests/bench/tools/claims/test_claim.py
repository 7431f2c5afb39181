"""Answers, ranges that decide, numbers as text, and how a function becomes a claim."""

from __future__ import annotations

import math

import pytest

from modescope.bench.devices.devices import Cpu, Hardware
from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.claim import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    WITHIN_LIMITS,
    Answer,
    claim,
    holds,
    in_range,
    refuted,
)

BELOW, ON_LOW, WITHIN, ABOVE, UNKNOWN = (
    Estimate(1.0, 0.9, 1.1),
    Estimate(4.0, 3.9, 4.1),
    Estimate(6.0, 5.0, 7.0),
    Estimate(9.0, 8.5, 9.5),
    Estimate(6.0, None, None),
)


def test_a_decorated_function_is_a_claim() -> None:
    @claim("it is", "003 §1; 000 .view", "cpu inductor")
    def some_claim(device: Hardware) -> Answer:
        """What is measured.

        What decides.

        import sys
        print(1)
        """
        return holds("so it is", {"n": 1})

    assert (some_claim.id, some_claim.statement) == ("some-claim", "it is")
    assert (some_claim.source, some_claim.needs) == ("003 §1; 000 .view", "cpu inductor")
    assert some_claim.method == "What is measured. What decides."
    assert (some_claim.snippet, some_claim.slow) == ("import sys\nprint(1)", True)
    assert some_claim.check(Cpu()) == Answer(HOLDS, "so it is", {"n": 1})


def test_limits_and_counter_examples_belong_to_their_verdicts() -> None:
    assert holds("", {}, ["not there"]).verdict == WITHIN_LIMITS
    assert refuted("", {"a": 1, "b": 2}, {"b": 2}).counter_example == "b: 2"
    assert refuted("", {"a": 1, "b": False}).counter_example == "a: 1, b: no"


@pytest.mark.parametrize(
    ("estimates", "verdict", "limits"),
    [
        ([WITHIN], HOLDS, 0),
        ([Estimate(6.0, 4.0, 8.0)], HOLDS, 0),
        ([WITHIN, BELOW], WITHIN_LIMITS, 1),
        ([WITHIN, BELOW, ABOVE, ON_LOW], WITHIN_LIMITS, 3),
        ([BELOW, ABOVE], REFUTED, 0),
        ([WITHIN, ON_LOW], UNDECIDED, 0),
        ([BELOW, UNKNOWN], UNDECIDED, 0),
        ([], UNDECIDED, 0),
    ],
)
def test_intervals_decide_a_range(estimates: list[Estimate], verdict: str, limits: int) -> None:
    named = {f"n{i}": each for i, each in enumerate(estimates)}
    answer = in_range(named, 4, 8, {"more": 1})
    assert (answer.verdict, len(answer.limits)) == (verdict, limits)
    assert answer.numbers == {**named, "more": 1}


def test_a_range_may_have_no_end() -> None:
    assert in_range({"n": ABOVE}, 4, math.inf).verdict == HOLDS
    assert in_range({"n": BELOW}, 4, math.inf).verdict == REFUTED
