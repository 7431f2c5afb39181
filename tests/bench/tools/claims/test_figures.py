"""Observations as figures, and figures, answers and summaries in words."""

from __future__ import annotations

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.figures import Figure, Observed, figures, written
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.helpers.claims.answers import answer

LABELS = {
    "taken": "taken [B]",
    "share": "share of it [share]",
    "time": "one add [s]",
    "strides": "strides",
    "same": "the same",
    "error": "error",
    "by_op": "taken by [B]",
    "example": "",
}
EVERYTHING = Observed(
    LABELS,
    {
        **{"taken": 2048, "share": 0.5, "time": Estimate(1.5e-6, 1.4e-6, 1.6e-6)},
        **{"strides": (4, 1), "same": False, "error": None},
        **{"by_op": {"add": 1, "view": None}, "example": "x", "more": 1},
    },
)


def test_each_value_is_a_figure_with_its_label_and_unit() -> None:
    assert figures("a-claim", "cpu", EVERYTHING) == [
        Figure("a-claim", "taken", "cpu", 2048.0, None, None, None, "B"),
        Figure("a-claim", "share of it", "cpu", 0.5, None, None, None, "share"),
        Figure("a-claim", "one add", "cpu", 1.5e-6, 1.4e-6, 1.6e-6, None, "s"),
        Figure("a-claim", "strides", "cpu", None, None, None, "(4, 1)", ""),
        Figure("a-claim", "the same", "cpu", None, None, None, "no", ""),
        Figure("a-claim", "error", "cpu", None, None, None, None, ""),
        Figure("a-claim", "taken by add", "cpu", 1.0, None, None, None, "B"),
        Figure("a-claim", "taken by view", "cpu", None, None, None, None, "B"),
    ]


def test_values_are_attributes() -> None:
    assert (EVERYTHING.taken, EVERYTHING.by_op["add"], EVERYTHING.more) == (2048, 1, 1)
    assert EVERYTHING.say("taken", "by_op") == "taken: 2,048 B, taken by add: 1 B, taken by view: –"
    assert EVERYTHING.by_op.only(lambda op, _: op == "add").say_all() == "taken by add: 1 B"
    with pytest.raises(AttributeError, match="not observed: freed"):
        assert EVERYTHING.freed


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(TypeError, match="taken: list is no figure"):
        figures("a-claim", "cpu", Observed(LABELS, {"taken": [1]}))


def figure(number: float | None, unit: str, *interval: float, text: str | None = None) -> str:
    low, high = interval or (None, None)
    return written(Figure("a-claim", "a figure", "cpu", number, low, high, text, unit))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (figure(4096, "B"), "4,096 B"),
        (figure(590.4, "B"), "590.4 B"),
        (figure(12, ""), "12"),
        (figure(0, "s"), "0 s"),
        (figure(2.5, "s"), "2.5 s"),
        (figure(0.0123, "s"), "12.3 ms"),
        (figure(1.5e-6, "s", 1.4e-6, 1.6e-6), "1.5 µs [1.4 µs, 1.6 µs]"),
        (figure(84e-9, "s"), "84 ns"),
        (figure(1.0512, "x", 1.05, 1.06), "1.051× [1.050×, 1.060×]"),
        (figure(4.0, "x"), "4×"),
        (figure(0.866, "share"), "86.6 %"),
        (figure(None, "s"), "–"),
        (figure(None, "", text="(1, 2)"), "(1, 2)"),
        (figure(float("inf"), ""), "inf"),
    ],
)
def test_a_figure_is_told_in_its_unit(sentence: str, expected: str) -> None:
    assert sentence == expected


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (
            [HOLDS] * 27 + [WITHIN_LIMITS] * 9 + [REFUTED] * 5 + [UNDECIDED] * 3,
            "of 44 statements 27 hold, 9 within limits, 5 are refuted, 3 undecided here",
        ),
        (
            [HOLDS, REFUTED],
            "of 2 statements 1 holds, 0 within limits, 1 is refuted, 0 undecided here",
        ),
        (
            [WITHIN_LIMITS],
            "of 1 statement 0 hold, 1 within limits, 0 are refuted, 0 undecided here",
        ),
    ],
)
def test_the_summary_counts_verdicts(verdicts: list[str], said: str) -> None:
    assert page.summary([answer(verdict=verdict) for verdict in verdicts]) == said


def test_a_line_has_limits_and_the_counter_example_below() -> None:
    result = answer(
        verdict=REFUTED, because="it is not", counter_example="x.T is", limits=("a", "b")
    )
    first, *more = page.line(result).splitlines()
    assert first.split(maxsplit=1) == ["refuted", "view-contiguous: it is not"]
    assert [line.strip() for line in more] == ["a", "b", "x.T is"]


def test_only_what_went_wrong_is_a_failure() -> None:
    answers = [
        answer(),
        answer(status="skipped", reason="no GPU", verdict=UNDECIDED),
        answer(status="timeout", reason="on cpu: still running", verdict=UNDECIDED),
    ]
    assert page.failures(answers) == ["view-contiguous: timeout, on cpu: still running"]
