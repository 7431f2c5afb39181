"""The contents of a report: its first screen, the rows that it lists, and its environments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.causes import finding
from modescope.analysis.derive.select import ordered
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report import first_screen, report, study
from modescope.analysis.report.chapters import chapters
from modescope.analysis.report.environment import environments
from modescope.analysis.report.first_screen import answer_cards
from modescope.analysis.report.study import Study
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.causes import profiled
from tests.helpers.derivations import table_of
from tests.helpers.rows import ends, row_with
from tests.helpers.studies import cpu_sweep, record, save, training

EAGER = record("eager", speedup=1.0, spread=0.002)


def shown(folder: Path, *records: Record) -> Study:
    rows = ordered(table_of(save(records, folder)))
    return Study("s", "s", rows, recommend(rows), {}, finding.findings_by_run(rows))


def test_a_work_has_its_picture_beside_the_answer_which_no_chapter_repeats(tmp_path: Path) -> None:
    whole = shown(tmp_path, EAGER, record("inference_mode", speedup=1.5))
    contents = {name: part for name, _, part in report.context(whole, chapters(whole))["parts"]}
    (card,) = contents["which"]["works"]
    assert card.picture.file == "speedup-1.svg"
    assert card.picture.caption.endswith(" Grey: eager code, with or without autograd.")
    assert "figures" not in contents


def test_fewer_bits_over_a_size_have_their_picture_and_sentence_first(tmp_path: Path) -> None:
    few: dict[str, Any] = {"axes": '{"quantize":"int8-dynamic"}', "quantize": "int8-dynamic"}
    made = [
        record(mode, speedup=speedup, shape=f'{{"width":{width}}}', **columns)
        for width in (64, 128, 256)
        for mode, speedup, columns in (
            ("eager", 1.0, {}), ("compile", 1.5, {}), ("compile[quantize=int8-dynamic]", 2.0, few)
        )
    ]  # fmt: skip
    whole = shown(tmp_path, *made)
    answers = answer_cards(whole, chapters(whole))
    assert answers["works"][0].picture.kind.name == "bits"
    (sentence,) = answers["bits"]
    assert "faster than compile at every width from 64 to 256" in sentence


@pytest.mark.parametrize(
    ("share", "named"),
    [(0.3, True), (0.12, False)],  # of a call that takes 44 % longer than the recommended one's
)
def test_a_cause_too_small_for_the_difference_is_not_named(
    tmp_path: Path, share: float, named: bool
) -> None:
    casts = profiled(1e-3, ("aten::_to_copy", 24, share * 1e-3))
    best = record("inference_mode", speedup=2.5, dtype="bf16", baseline_dtype="fp32")
    whole = shown(tmp_path, EAGER, best, record("amp", speedup=1.4, **casts))
    (card,) = answer_cards(whole, [])["works"]
    (line,) = (line for line in card.blocks[0].why if line.label.startswith("Why not"))
    assert ("casts" in line.text) == named


@pytest.mark.parametrize(("low", "named"), [(1.39, True), (0.9, False)])
def test_of_a_wide_interval_a_cause_has_to_explain_the_largest_difference(
    tmp_path: Path, low: float, named: bool
) -> None:
    """Casts take 0.25 of a call that may take 1.8 or 2.8 times as long as the best one's."""
    casts = profiled(1e-3, ("aten::_to_copy", 24, 0.25e-3))
    best = record("inference_mode", speedup=2.5, dtype="bf16", baseline_dtype="fp32")
    whole = shown(tmp_path, EAGER, best, record("amp", speedup=1.4, **casts))
    chosen, row = (
        next(one for one in whole.by_id.values() if one["mode"] == mode)
        for mode in ("inference_mode", "amp")
    )
    found = first_screen._cause(whole, row_with(row, speedup=ends(low=low)), chosen)
    assert (found is not None) is named


def test_whatever_sets_works_apart_makes_another_heading(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"model": "mlp"},
        {"model_args": '{"width":64}'},
        {"model_inputs": '{"x":[8,64]}'},
        {"shape": canonical_json({"batch": 8, "seq": 64})},
        {"phase": "train", "optimizer": "sgd"},
        {"phase": "train", "optimizer": "adamw"},
        {"training": '{"lr":0.1}'},
        {"threads": 2},
        {"device": "cuda", "device_name": "NVIDIA H200"},
        {"environment_id": "env-2"},
    ]
    records = [record(case_id=f"case {n}", **each) for n, each in enumerate(changes)]
    found = shown(tmp_path, *records)
    assert list(map(len, found.sections)) == [1] * len(changes)
    assert len(found.by_work([rows[0] for rows in found.sections])) == len(changes)


def test_of_many_rows_the_best_of_each_work_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "MOST_LISTED", 4)
    found = shown(tmp_path, *cpu_sweep("mlp"), *cpu_sweep("transformer"))
    assert [[row["mode"] for row in rows] for rows in found.sections] == [
        ["max-autotune", "compile"]
    ] * 2
    assert found.unlisted == 18
    assert [row["mode"] for row in found.by_id.values() if found.anchor(row)] == [
        *("max-autotune", "compile", "max-autotune", "compile")
    ]


OTHER = record(model="transformer", model_source_id="two")


@pytest.mark.parametrize(
    ("records", "differing"),
    [
        (  # each model has a source of its own, and so has a user's loss
            [record(model="mlp", model_source_id="one"), OTHER,
             training(model="mlp", model_source_id="with a loss")],
            [],
        ),
        (
            [record("compile", model="mlp", model_source_id="old"),
             record("no_grad", model="mlp", model_source_id="new"), OTHER],
            ["model_source_id"],
        ),
        (
            [record(model="mlp", model_source_id="one", environment_id="env-2", host="other"),
             OTHER],
            ["environment_id", "host"],
        ),
    ],
)  # fmt: skip
def test_what_differs_between_comparable_rows(
    tmp_path: Path, records: Sequence[Record], differing: Sequence[str]
) -> None:
    found = environments(table_of(save(records, tmp_path)))
    assert [fact["name"] for fact in found["facts"] if fact["differs"]] == differing


GPU: dict[str, Any] = {"device": "cuda", "device_name": "NVIDIA H100", "compute_capability": "9.0"}


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ([], "torch.compile and CUDA graphs in bf16; any mode in tf32."),
        (["compile"], "CUDA graphs in bf16; any mode in tf32."),
        (["amp-compile", "cuda-graph"], "any mode in tf32."),
        (["reduce-overhead", "tf32"], None),
    ],
)
def test_an_answer_says_what_might_be_faster_and_was_not_measured(
    tmp_path: Path, more: Sequence[str], missing: str | None
) -> None:
    bf16 = [
        record(mode, speedup=1.5, dtype="bf16", **GPU)
        for mode in ("inference_mode", *more)
        if mode != "tf32"
    ]
    tf32 = [record("compile", dtype="tf32", baseline_dtype="tf32", **GPU)] if "tf32" in more else []
    whole = shown(tmp_path, record("eager", speedup=1.0, spread=0.002, **GPU), *bf16, *tf32)
    (card,) = answer_cards(whole, [])["works"]
    said = [line.text for line in card.left_out if line.label == "Not measured"]
    assert said == ([] if missing is None else [missing])


def test_a_row_of_a_slow_host_on_a_gpu_is_in_a_report(tmp_path: Path) -> None:
    slow = record("compile", flags=("slow_pace",), **GPU)
    whole = shown(tmp_path, record("eager", speedup=1.0, **GPU), slow)
    (card,) = answer_cards(whole, [])["works"]
    assert "Not counted" in [line.label for line in card.left_out]


def test_what_is_marked_is_recommended_at_its_precision_from_empty_caches(tmp_path: Path) -> None:
    warm: dict[str, Any] = {"compile_cache": "warm"}
    whole = shown(
        tmp_path, EAGER, record("no_grad", speedup=1.2), record("amp", speedup=0.5),
        record("eager", speedup=1.0, **warm), record("compile", speedup=2.0, **warm),
    )  # fmt: skip
    assert [row["mode"] for row in whole.by_id.values() if row["run_id"] in whole.recommended] == [
        "no_grad"
    ]
