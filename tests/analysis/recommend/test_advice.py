"""Neighbouring sizes with one answer become one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.recommend.advice import Advice, Precision, fold
from modescope.analysis.recommend.decide import recommend
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, replicates, save

CALL_S = 100e-6


def at(sizes: Mapping[str, int], mode: str, speedup: float, **columns: Any) -> Sequence[Record]:
    """A mode at one shape, and the baseline: a call takes 100 µs, a first one 1 s."""
    shape: dict[str, Any] = {"shape": canonical_json(sizes), "batch": sizes.get("batch"), **columns}
    return [control(**shape), record(mode, CALL_S, speedup, spread=0.03, **shape)]


def advice(folder: Path, *groups: Sequence[Record], **asked: Any) -> tuple[Advice, ...]:
    records = [one for group in groups for one in group]
    return fold(recommend(derived(save(records, folder)), **asked))


def sentences(folder: Path, *groups: Sequence[Record], **asked: Any) -> list[str]:
    return [
        f"{one.work}, {precision.text}"
        for one in advice(folder, *groups, **asked)
        for precision in one.precisions
    ]


def precision(folder: Path, *groups: Sequence[Record], **asked: Any) -> Precision:
    ((only,),) = (one.precisions for one in advice(folder, *groups, **asked))
    return only


def batch(size: int, mode: str, speedup: float, **columns: Any) -> Sequence[Record]:
    return at({"batch": size, "seq": 64}, mode, speedup, **columns)


def test_neighbouring_batches_with_one_answer_form_one_span(tmp_path: Path) -> None:
    (sentence,) = sentences(
        tmp_path,
        batch(64, "compile", 1.25),
        batch(4, "reduce-overhead", 2.5),
        batch(16, "reduce-overhead", 2.0),
        batch(1, "reduce-overhead", 3.0),
    )
    assert sentence == (
        "transformer, seq 64, inference, fp32: "
        "batch ≤ 16: reduce-overhead, 2.00 to 3.00× [1.98, 3.03] over eager, pays after at most "
        "9,980 calls (first call 1.00 s), relative error 2.1e-7 (eager 2.0e-7), memory unknown; "
        "batch 64: compile, 1.25× [1.24, 1.26] over eager, pays after 39,900 calls (first call "
        "1.00 s), relative error 2.1e-7 (eager 2.0e-7), memory unknown"
    )


def test_a_span_ends_where_the_answer_changes(tmp_path: Path) -> None:
    (sentence,) = sentences(
        tmp_path,
        batch(2, "compile", 1.5),
        batch(4, "compile", 1.5),
        batch(8, "compile", 1.0),
        batch(16, "compile", 1.5),
        batch(32, "compile", 1.5),
    )
    spans = sentence.partition("fp32: ")[2].split("; ")
    assert [span.partition(":")[0] for span in spans] == [
        "batch 2 to 4",
        "batch 8",
        "batch 16 to 32",
    ]
    assert spans[1].startswith("batch 8: eager: no mode is")


def test_any_size_that_varies_alone_is_merged(tmp_path: Path) -> None:
    chain = [at({"batch": 8, "ops": ops}, "compile", 2.0) for ops in (4, 16, 64)]
    (sentence,) = sentences(tmp_path, *chain)
    assert sentence.startswith("transformer, batch 8, inference, fp32: ops 4 to 64: compile")


def test_batches_are_merged_for_each_value_of_another_size(tmp_path: Path) -> None:
    grid = [at({"batch": b, "seq": s}, "compile", 2.0) for b in (2, 4) for s in (64, 512)]
    assert [sentence.partition(":")[0] for sentence in sentences(tmp_path, *grid)] == [
        "transformer, seq 64, inference, fp32",
        "transformer, seq 512, inference, fp32",
    ]


def test_shapes_are_listed_where_two_sizes_other_than_the_batch_vary(tmp_path: Path) -> None:
    grid = [at({"depth": d, "width": w}, "compile", 2.0) for d in (2, 4) for w in (64, 512)]
    assert len(sentences(tmp_path, *grid)) == 4


def test_memory_of_a_span_is_a_range(tmp_path: Path) -> None:
    def with_memory(size: int, extra: int) -> Sequence[Record]:
        shape: dict[str, Any] = {"shape": canonical_json({"batch": size})}
        return [
            control(**shape, **needs(10 * MIB)),
            record("compile", CALL_S, 2.0, **shape, **needs(10 * MIB + extra)),
        ]

    (sentence,) = sentences(tmp_path, with_memory(1, -MIB), with_memory(4, 2 * MIB))
    assert sentence.endswith("−1.00 MiB to +2.00 MiB memory")


def test_the_gain_over_calls_includes_the_first_call(tmp_path: Path) -> None:
    (sentence,) = sentences(tmp_path, batch(8, "compile", 2.0, first_call_s=1.0), calls=100_000)
    assert sentence.endswith(
        "compile, 2.00× [1.98, 2.02] over eager, 1.82× [1.80, 1.83] over 100,000 calls with a "
        "first call of 1.00 s, relative error 2.1e-7 (eager 2.0e-7), memory unknown"
    )


@pytest.mark.parametrize(
    ("column", "values", "in_subject"),
    [
        ("compile_cache", ("cold", "warm"), "fp32, warm compiler cache:"),
        ("environment_id", ("one", "other"), "on AMD EPYC 9554, 1 thread, environment B, fp32:"),
        ("threads", (1, 2), "on AMD EPYC 9554, 2 threads, environment A, fp32:"),
        ("phase", ("inference", "train"), "seq 64, train, fp32:"),
    ],
)
def test_sentences_name_the_column_in_which_they_differ(
    tmp_path: Path, column: str, values: tuple[Any, Any], in_subject: str
) -> None:
    sweep = [batch(8, "compile", 2.0, case_id=str(v), **{column: v}) for v in values]
    one, other = sentences(tmp_path, *sweep)
    assert in_subject in other
    assert in_subject not in one


def test_a_remark_on_some_sizes_names_them(tmp_path: Path) -> None:
    flagged = batch(8, "compile", 2.0, flags=("drift",))
    sweep = [*batch(1, "compile", 2.0), *flagged, *batch(16, "compile", 2.0, flags=("drift",))]
    (remark,) = precision(tmp_path, sweep).remarks
    assert remark.startswith("At batch 8 and 16: Less certain for compile: its speedup changed")


def test_no_recommendations_merge_to_nothing(tmp_path: Path) -> None:
    assert fold(()) == ()


def test_a_mode_excluded_twice_is_named_with_the_difference_of_its_rows(
    tmp_path: Path,
) -> None:
    twice = [
        record("compile", case_id=f"compile-{breaks}", fullgraph=breaks, **needs(90 * MIB))
        for breaks in (True, False)
    ]
    records = [control(**needs(10 * MIB)), *twice]
    assert (
        "Not recommended: compile (fullgraph=true) and compile (fullgraph=false): a call needs "
        "90.0 MiB, more than the limit of 50 MiB."
    ) in precision(tmp_path, records, memory_limit_bytes=50 * MIB).remarks


def test_a_span_ends_where_results_are_no_longer_checked(tmp_path: Path) -> None:
    unjudged: dict[str, Any] = {"checked": "not", "checked_note": "chaos", "error": 0.8}
    found = precision(
        tmp_path, batch(1, "compile", 1.5), batch(2, "compile", 1.5),
        batch(4, "compile", 1.5, **unjudged),
    )  # fmt: skip
    assert [span.label for span in found.spans] == ["batch ≤ 2", "batch 4"]
    named = [span.text.partition(",")[0] for span in found.spans]
    assert named == ["compile", "compile (results not checked)"]
    assert "At batch 4: The results of compile were not checked: chaos." in found.remarks


def test_the_precision_whose_mode_gains_most_comes_first(tmp_path: Path) -> None:
    fp32 = [control(), record("no_grad", speedup=1.2)]
    low = {"gains": 2.0, "loses": 0.7}
    order = {
        name: [
            one.name
            for one in advice(tmp_path / name, [*fp32, record("amp", speedup=speedup)])[
                0
            ].precisions
        ]
        for name, speedup in low.items()
    }
    assert order == {"gains": ["bf16", "fp32"], "loses": ["fp32", "bf16"]}


def test_how_sure_an_answer_is_follows_from_its_least_certain_row(tmp_path: Path) -> None:
    def missed_percent(name: str, *spreads: float) -> float:
        modes = zip(("compile", "no_grad"), spreads, strict=False)
        rows = [record(mode, speedup=1.3, spread=spread) for mode, spread in modes]
        certainty = advice(tmp_path / name, [control(), *rows])[0].certainty
        assert "one process per mode" in certainty
        assert "eager fp32 against itself measures 1.0" in certainty
        return float(re.findall(r"gains below ([\d.]+) %", certainty)[0])

    assert missed_percent("sure", 0.01) < missed_percent("unsure", 0.01, 0.2)


def test_without_the_baseline_its_noise_and_its_memory_are_not_known(tmp_path: Path) -> None:
    (only,) = advice(tmp_path, [record("compile", speedup=1.3, **needs(2 * MIB))])
    assert "eager fp32 was not measured against itself" in only.certainty
    assert only.precisions[0].text.endswith("peak 2.00 MiB (eager's was not measured)")


def test_replicates_say_how_much_processes_differ(tmp_path: Path) -> None:
    (only,) = advice(tmp_path, [control(), *replicates(5, speedup=1.3)])
    assert re.search(r"differ by up to [\d.]+ % between processes \(5 or more", only.certainty)
