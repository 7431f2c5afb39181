"""The first screen of a report: why a mode is recommended and others are not, what did not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.causes import finding
from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report.figures import chapters
from modescope.analysis.report.first_screen import Card, which
from modescope.analysis.report.study import Study
from modescope.bench.records.results import Record
from tests.helpers.causes import profiled
from tests.helpers.paths import REFERENCE
from tests.helpers.studies import at_size, not_measured, record, save

NO_GPU = "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs"
NO_GRAPHS: dict[str, Any] = {"in_effect": False, "in_effect_note": NO_GPU}
CASTS = profiled(1e-3, ("aten::_to_copy", 24, 820e-6))
EAGER = record("eager", speedup=1.0, spread=0.002)


def _cards(folder: Path) -> list[Card]:
    cards: list[Card] = which(_study(folder), [])["works"]
    return cards


def _study(folder: Path) -> Study:
    rows = ordered(derived(folder))
    return Study("s", "s", rows, recommend(rows), {}, finding.of_table(rows))


def _card(folder: Path, *records: Record) -> Card:
    (only,) = _cards(save(records, folder))
    return only


def _labels(lines: Sequence[Any]) -> list[str]:
    return [line.label for line in lines]


def test_a_work_has_its_picture_beside_the_answer_which_no_chapter_repeats(tmp_path: Path) -> None:
    study = _study(save([EAGER, record("inference_mode", speedup=1.5)], tmp_path))
    drawn = chapters(study)
    content = which(study, drawn)
    (card,) = content["works"]
    assert card.picture.file == "speedup-1.svg"
    assert content["shown"] == {"speedup-1.svg"}
    assert [one.without(content["shown"]) for one in drawn] == [None]


def test_of_the_recommended_precision_it_is_said_why_not_compile(tmp_path: Path) -> None:
    card = _card(tmp_path, EAGER, record("inference_mode", speedup=1.5), record("no_grad"),
                 record("compile", speedup=1.2), record("amp", speedup=0.5, **CASTS),
                 record("amp-compile", speedup=0.6))  # fmt: skip
    fp32, bf16 = card.blocks
    assert _labels(fp32.why) == ["Why", "Why not compile"]
    assert "slower than inference_mode" in fp32.why[1].text
    assert _labels(bf16.why) == ["Why"]


def test_without_a_compiled_row_it_is_said_that_none_was_measured(tmp_path: Path) -> None:
    card = _card(tmp_path, EAGER, record("no_grad", speedup=1.5))
    assert _labels(card.left_out) == ["Not measured"]


def test_a_slow_mode_that_is_not_in_effect_is_no_loser(tmp_path: Path) -> None:
    slow = record("reduce-overhead", speedup=0.5, **NO_GRAPHS)
    skipped = not_measured("cuda-graph", "skipped", "no GPU, and more; set device=cuda")
    failed = not_measured("max-autotune", "oom", "no room")
    card = _card(tmp_path, EAGER, slow, skipped, failed)
    assert card.blocks[0].why == card.blocks[0].more == ()
    assert {line.label: line.text for line in card.left_out} == {
        "Not in effect": "reduce-overhead (CUDA graphs need a GPU: on a CPU this runs without CUDA "
        "graphs).",
        "Not run here": "cuda-graph (no GPU).",
        "Failed": "max-autotune (oom: no room).",
    }


def test_modes_with_one_cause_are_one_line(tmp_path: Path) -> None:
    amp, both = (
        record(mode, speedup=s, **CASTS) for mode, s in (("amp", 0.2), ("amp-compile", 0.25))
    )
    block = _card(tmp_path, EAGER, amp, both).blocks[0]
    ((line,), more) = block.why, block.more
    assert (line.label, more) == ("Why", ())
    assert "amp-compile and amp are 4.0 to 5.0 times slower" in line.text
    assert line.text.count("82 % of a call") == 1


def test_over_several_sizes_a_mode_has_the_line_of_its_largest_difference(tmp_path: Path) -> None:
    records = [
        one
        for batch, speedup in ((1, 0.2), (8, 0.4))
        for one in (
            at_size("eager", 1.0, batch, spread=0.002),
            at_size("amp", speedup, batch, **CASTS),
        )
    ]
    block = _card(tmp_path, *records).blocks[0]
    assert [line.text.partition(":")[0] for line in block.why] == ["batch 1, seq 64"]


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


@pytest.mark.parametrize(
    ("study", "modes"),
    [
        ("intel-xeon-2-cores", ["no_grad fp32", "no_grad fp32"]),
        ("nvidia-h100", ["inference_mode bf16", "inference_mode bf16"]),
        ("nvidia-h100/training", ["amp bf16", "compile-cuda-graph fp32"]),
    ],
)
def test_the_first_answers_of_kept_studies(study: str, modes: Sequence[str]) -> None:
    found = _cards(REFERENCE / study)
    first = [card.blocks[0] for card in found]
    assert [f"{block.answers[0].lead} {block.name}" for block in first] == modes
    assert all(1 <= len(block.why) <= 2 for block in first)
