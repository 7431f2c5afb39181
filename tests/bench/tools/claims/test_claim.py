"""Answers: how a check makes them, how those of several devices become one, and numbers as text."""

from __future__ import annotations

import math
from typing import Any

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
    combined,
    in_range,
    judged,
    say,
    side,
    split_unit,
    undecided,
    written,
)

BELOW, ON_LOW, WITHIN, ABOVE, UNKNOWN = (
    Estimate(1.0, 0.9, 1.1),
    Estimate(4.0, 3.9, 4.1),
    Estimate(6.0, 5.0, 7.0),
    Estimate(9.0, 8.5, 9.5),
    Estimate(6.0, None, None),
)


def test_a_decorated_function_is_a_claim() -> None:
    @claim("it is", "003 §1; 000 .view", needs="cpu inductor", timed=True, snippet="  print(1)\n")
    def some_claim(device: Hardware) -> Answer:
        """What is measured.

        Refuted if it is not.
        """
        return judged("so it is", {"n": 1}, {})

    assert (some_claim.id, some_claim.statement) == ("some-claim", "it is")
    assert some_claim.source == ("003 §1", "000 .view")
    assert (some_claim.devices, some_claim.compilers) == (("cpu",), ("inductor",))
    assert some_claim.method == "What is measured. Refuted if it is not."
    assert (some_claim.snippet, some_claim.timed) == ("print(1)", True)
    assert some_claim.check(Cpu()) == Answer(HOLDS, "so it is", {"n": 1})


@pytest.mark.parametrize(
    ("wrong", "limits", "verdict", "example"),
    [
        ({}, [], HOLDS, None),
        ("", [], HOLDS, None),
        ({}, ["not there"], WITHIN_LIMITS, None),
        ({"taken by x.T [B]": 4096}, ["not there"], REFUTED, "taken by x.T: 4,096 B"),
        ("x.T", [], REFUTED, "x.T"),
    ],
)
def test_what_is_wrong_refutes(
    wrong: Any, limits: list[str], verdict: str, example: str | None
) -> None:
    answer = judged("it is so", {"n": 1}, wrong, limits)
    assert (answer.verdict, answer.counter_example) == (verdict, example)
    assert answer.limits == (tuple(limits) if verdict != REFUTED else ())
    assert answer.numbers == {"n": 1}


@pytest.mark.parametrize(
    ("estimate", "where"),
    [
        (BELOW, "below"),
        (WITHIN, "within"),
        (Estimate(6.0, 4.0, 8.0), "within"),
        (ABOVE, "above"),
        (ON_LOW, "unclear"),
        (UNKNOWN, "unclear"),
    ],
)
def test_the_side_of_an_interval(estimate: Estimate, where: str) -> None:
    assert side(estimate, 4, 8) == where


@pytest.mark.parametrize(
    ("estimates", "verdict", "limits"),
    [
        ([WITHIN], HOLDS, 0),
        ([WITHIN, BELOW], WITHIN_LIMITS, 1),
        ([WITHIN, BELOW, ABOVE, ON_LOW], WITHIN_LIMITS, 3),
        ([BELOW], REFUTED, 0),
        ([BELOW, ABOVE], REFUTED, 0),
        ([WITHIN, ON_LOW], UNDECIDED, 0),
        ([BELOW, UNKNOWN], UNDECIDED, 0),
        ([], UNDECIDED, 0),
    ],
)
def test_intervals_decide_a_range(estimates: list[Estimate], verdict: str, limits: int) -> None:
    named = {f"n{i} [x]": each for i, each in enumerate(estimates)}
    answer = in_range(named, 4, 8)
    assert (answer.verdict, len(answer.limits)) == (verdict, limits)
    assert (answer.counter_example is not None) == (verdict == REFUTED)
    assert answer.numbers == named


def test_a_range_may_have_no_end() -> None:
    assert in_range({"n [x]": ABOVE}, 4, math.inf).verdict == HOLDS
    assert in_range({"n [x]": BELOW}, 4, math.inf).verdict == REFUTED


YES, NO, PARTLY, UNCLEAR = (
    judged("a", {}, {}),
    judged("b", {}, "x"),
    judged("c", {}, {}, ["y"]),
    undecided("d", {}),
)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([YES], HOLDS),
        ([YES, YES], HOLDS),
        ([NO, NO], REFUTED),
        ([YES, NO], WITHIN_LIMITS),
        ([YES, PARTLY], WITHIN_LIMITS),
        ([PARTLY, NO], WITHIN_LIMITS),
        ([UNCLEAR, NO], REFUTED),
        ([YES, UNCLEAR], HOLDS),
        ([UNCLEAR, UNCLEAR], UNDECIDED),
    ],
)
def test_devices_together(answers: list[Answer], verdict: str) -> None:
    for order in (answers, answers[::-1]):
        answer = combined(dict(zip(("cpu", "cuda:1"), order, strict=False)))
        assert answer.verdict == verdict
        assert bool(answer.limits) == (verdict == WITHIN_LIMITS)
        assert bool(answer.counter_example) == (verdict == REFUTED)
        assert answer.numbers == {}


def test_limits_name_the_device() -> None:
    assert combined({"cpu": PARTLY, "cuda": NO}).limits == ("on cpu: y", "not on cuda: x")


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("taken by x[1:6] [B]", ("taken by x[1:6]", "B")),
        ("graphs after x[0]", ("graphs after x[0]", "")),
        ("offset", ("offset", "")),
    ],
)
def test_a_unit_stands_at_the_end(label: str, parts: tuple[str, str]) -> None:
    assert split_unit(label) == parts


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4096, "B", "4,096 B"),
        (True, "", "yes"),
        (0, "", "0"),
        (0.25, "", "0.25"),
        (3.14e-5, "s", "31.4 µs"),
        (1.06349, "x", "1.063×"),
        (0.0689, "share", "6.89 %"),
        ((1, 20, 5), "", "(1, 20, 5)"),
        ("aten.add", "", "aten.add"),
        (None, "B", "–"),
        (Estimate(0.06, 0.05, 0.07), "share", "6 % [5 %, 7 %]"),
        (Estimate(2.0, None, None), "x", "2×"),
    ],
)
def test_a_number_as_text(value: Any, unit: str, text: str) -> None:
    assert written(value, unit) == text


def test_numbers_are_said_with_labels() -> None:
    assert say({"a [B]": 1, "b": False}) == "a: 1 B, b: no"
