"""Answers in tf32: ranked over eager in tf32, told over eager in fp32, and missed where absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.recommend.advice import Advice, fold
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import Outcome, Recommendation
from modescope.analysis.recommend.wording import TF32_OFF
from modescope.bench.records.results import Record
from tests.helpers.derivations import table_of
from tests.helpers.recommendations import control
from tests.helpers.studies import record, save

H100: dict[str, Any] = {"device": "cuda", "device_name": "NVIDIA H100", "compute_capability": "9.0"}
TF32 = {**H100, "dtype": "tf32", "baseline_dtype": "tf32", "error_limit": 1e-3, "error": 3e-4}


def link(speedup: float = 5.0, **columns: Any) -> Record:
    return record("eager", speedup=speedup, **{**TF32, "baseline_dtype": "fp32", **columns})


EAGER = control(**H100)
BF16 = record("inference_mode", speedup=6.0, dtype="bf16", **H100)
FASTER = record("compile", speedup=1.4, **TF32)
EQUAL = record("no_grad", speedup=1.0, spread=0.002, **TF32)


def answers(folder: Path, *records: Record) -> dict[tuple[str, str | None], Recommendation]:
    found = recommend(table_of(save(records, folder)))
    return {(one.question.dtype, one.question.baseline_dtype): one for one in found}


def advice(folder: Path, *records: Record) -> Advice:
    (only,) = fold(recommend(table_of(save(records, folder))))
    return only


def test_a_faster_mode_is_the_only_answer_in_tf32_and_has_both_ratios(tmp_path: Path) -> None:
    found = answers(tmp_path, EAGER, link(), FASTER, EQUAL)
    assert [*found] == [("fp32", "fp32"), ("tf32", "tf32")]
    chosen = found["tf32", "tf32"]
    assert (chosen.outcome, chosen.choice and chosen.choice.mode) == (Outcome.MODE, "compile")
    assert chosen.choice
    assert chosen.choice.chained
    assert chosen.choice.speedup.value == pytest.approx(1.4, rel=1e-3)
    assert chosen.choice.chained.value == pytest.approx(7.0, rel=1e-3)
    assert chosen.link
    assert chosen.link.value == pytest.approx(5.0, rel=1e-3)


def test_precisions_are_in_the_order_of_gains_over_fp32(tmp_path: Path) -> None:
    for number, (speedup, first) in enumerate(((5.0, "tf32"), (3.0, "bf16"))):
        rows = EAGER, BF16, link(speedup), FASTER
        assert advice(tmp_path / str(number), *rows).precisions[0].name == first


def test_the_link_is_the_answer_if_nothing_in_tf32_is_faster(tmp_path: Path) -> None:
    found = answers(tmp_path, EAGER, link(), EQUAL)
    assert [*found] == [("fp32", "fp32"), ("tf32", "fp32")]
    chosen = found["tf32", "fp32"]
    assert (chosen.outcome, chosen.choice and chosen.choice.mode) == (Outcome.MODE, "eager")
    assert chosen.within
    assert chosen.within.outcome == Outcome.BASELINE
    assert chosen.choice
    assert 'set_float32_matmul_precision("high")' in chosen.choice.code


def test_without_a_link_modes_in_tf32_are_an_answer_of_their_own(tmp_path: Path) -> None:
    for number, others in enumerate(([], [link(status="failed", reason="why")])):
        found = answers(tmp_path / str(number), EAGER, FASTER, *others)["tf32", "tf32"]
        assert found.choice
        assert (found.choice.mode, found.choice.chained, found.link) == ("compile", None, None)


def test_another_mode_over_fp32_keeps_its_own_answer(tmp_path: Path) -> None:
    """It compiles nothing, so it was paired with eager in fp32 itself."""
    own = record("inference_mode", speedup=5.5, **{**TF32, "baseline_dtype": "fp32"})
    found = answers(tmp_path, EAGER, link(), own, FASTER)
    assert [*found] == [("fp32", "fp32"), ("tf32", "fp32"), ("tf32", "tf32")]


@pytest.mark.parametrize(
    ("more", "device", "is_off"),
    [
        ([], H100, True),
        ([], {**H100, "compute_capability": None}, True),
        ([], {**H100, "compute_capability": "7.5"}, False),
        ([], {}, False),
        ([link()], H100, False),
        ([FASTER], H100, False),
        ([link(in_effect=False)], H100, True),
    ],
)
def test_an_answer_over_fp32_says_that_tf32_was_off_unless_it_was_measured(
    more: list[Record], device: dict[str, Any], is_off: bool, tmp_path: Path
) -> None:
    low = record("inference_mode", speedup=6.0, dtype="bf16", **device)
    own = record("compile", speedup=1.5, dtype="bf16", baseline_dtype="bf16", **device)
    found = answers(tmp_path, control(**device), low, own, *more)
    off = {asked: one.tf32_off for asked, one in found.items() if one.tf32_off}
    assert off == ({("bf16", "fp32"): True} if is_off else {})
    texts = [each.text for one in fold([*found.values()]) for each in one.precisions]
    assert sum(TF32_OFF in text for text in texts) == is_off
