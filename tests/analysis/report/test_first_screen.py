"""The first screen of a report: its picture, and why a mode is not recommended."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.causes import finding
from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report import report
from modescope.analysis.report.figures import chapters
from modescope.analysis.report.first_screen import Card, answer_cards
from modescope.analysis.report.study import Study
from modescope.bench.records.results import Record
from tests.helpers.causes import profiled
from tests.helpers.studies import record, save

EAGER = record("eager", speedup=1.0, spread=0.002)


def _study(folder: Path, *records: Record) -> Study:
    rows = ordered(derived(save(records, folder)))
    return Study("s", "s", rows, recommend(rows), {}, finding.findings_by_run(rows))


def _card(folder: Path, *records: Record) -> Card:
    cards: list[Card] = answer_cards(_study(folder, *records), [])["works"]
    (only,) = cards
    return only


def test_a_work_has_its_picture_beside_the_answer_which_no_chapter_repeats(tmp_path: Path) -> None:
    study = _study(tmp_path, EAGER, record("inference_mode", speedup=1.5))
    contents = {name: part for name, _, part in report.context(study, chapters(study))["parts"]}
    assert [card.picture.file for card in contents["which"]["works"]] == ["speedup-1.svg"]
    assert "figures" not in contents


def test_of_the_recommended_precision_it_is_said_why_not_compile(tmp_path: Path) -> None:
    kinds = {"inference_mode": 1.5, "no_grad": 1.25, "compile": 1.2, "amp": 0.5, "amp-compile": 0.6}
    card = _card(tmp_path, EAGER, *(record(mode, speedup=s) for mode, s in kinds.items()))
    fp32, bf16 = card.blocks
    assert [line.label for line in fp32.why] == ["Why", "Why not compile"]
    assert [line.label for line in bf16.why] == ["Why"]
    assert card.left_out == []


def test_a_slow_mode_that_is_not_in_effect_is_no_loser(tmp_path: Path) -> None:
    slow = record("reduce-overhead", speedup=0.5, in_effect=False, in_effect_note="no CUDA graph")
    card = _card(tmp_path, EAGER, slow)
    assert card.blocks[0].why == card.blocks[0].more == []
    assert [line.label for line in card.left_out] == ["Not in effect"]


@pytest.mark.parametrize(
    ("share", "named"),
    [(0.3, True), (0.12, False)],  # of a call that takes 44 % longer than the recommended one's
)
def test_a_cause_too_small_for_the_difference_is_not_named(
    tmp_path: Path, share: float, named: bool
) -> None:
    casts = profiled(1e-3, ("aten::_to_copy", 24, share * 1e-3))
    best = record("inference_mode", speedup=2.5, dtype="bf16", baseline_dtype="fp32")
    (block,) = _card(tmp_path, EAGER, best, record("amp", speedup=1.4, **casts)).blocks[:1]
    (line,) = (line for line in block.why if line.label.startswith("Why not"))
    assert ("casts" in line.text) == named
