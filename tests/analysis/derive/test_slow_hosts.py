"""Rows on a GPU whose host was slow: what is told of them, and what is recommended."""

from __future__ import annotations

from modescope.analysis.derive.registry import derived
from modescope.analysis.format import cells, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend.advice import remarks
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import MODE
from tests.helpers.paths import REFERENCE

BF16 = derived(str(REFERENCE / "nvidia-h100/bf16"))
MAIN = derived(str(REFERENCE / "nvidia-h100"))


def _row(table: object, model: str, mode: str, dtype: str) -> Row:
    wanted = (model, mode, dtype)
    (row,) = [row for row in phrases.as_rows(table)  # type: ignore[arg-type]
              if (row["model"], phrases.mode(row), row["dtype"]) == wanted]  # fmt: skip
    return row


def test_a_host_at_half_speed_in_all_rounds_leaves_a_mode_undecided() -> None:
    row = _row(BF16, "transformer", "compile-cuda-graph", "bf16")
    assert (row["slow_rounds"], row["rounds"], row["verdict"]) == (0, 120, "inconclusive")
    assert row["cause"].split(";")[0] == "slow_host"
    assert "the host ran at 2.1 times its usual time: undecided" in row["cause_text"]
    assert "the device works 2.6 % less than the baseline's" in row["cause_text"]
    assert row["break_even_calls"] is None


def test_such_a_mode_is_not_recommended_and_the_answer_says_why() -> None:
    (answer,) = [one for one in recommend(BF16) if one.question.model == "transformer"]
    assert answer.outcome == MODE
    assert answer.choice is not None
    assert answer.choice.mode == "cuda-graph"
    assert answer.floor is None  # the baseline against itself had a slow host, too
    said = "compile-cuda-graph: the host ran at 2.1 times its usual time: undecided."
    assert said in list(remarks(answer))


def test_enough_rounds_at_full_pace_decide_and_are_counted() -> None:
    row = _row(MAIN, "transformer", "compile", "bf16")
    assert (row["slow_rounds"] + row["rounds"], row["verdict"]) == (53, "faster")
    assert 12 <= row["rounds"] < 20
    assert "slow_pace" not in phrases.flags(row)
    assert row["speedup"] > 10.5  # of all rounds 10.42, of the slow ones 10.41
    said = f"{row['rounds']:.0f} of 53 rounds: the host was slow in the others"
    assert said in cells.remarks(row)
