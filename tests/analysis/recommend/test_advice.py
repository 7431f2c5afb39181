"""Neighbouring sizes with one answer become one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.recommend import wording
from modescope.analysis.recommend.advice import Advice, fold
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.bench.records import parquet
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record, row
from modescope.bench.records.rows import CONFIRMATIONS
from tests.helpers.derivations import table_of
from tests.helpers.recommendations import MIB, control, needs
from tests.helpers.studies import record, save


def at(sizes: Mapping[str, int], mode: str, speedup: float, **columns: Any) -> Sequence[Record]:
    """A mode at one shape, and the baseline: a call takes 100 µs, a first one 1 s."""
    shape: dict[str, Any] = {"shape": canonical_json(sizes), "batch": sizes.get("batch"), **columns}
    return [control(**shape), record(mode, 100e-6, speedup, spread=0.03, **shape)]


def batch(size: int, mode: str, speedup: float, **columns: Any) -> Sequence[Record]:
    return at({"batch": size, "seq": 64}, mode, speedup, **columns)


def advice(folder: Path, *groups: Sequence[Record]) -> tuple[Advice, ...]:
    records = [one for group in groups for one in group]
    return fold(recommend(table_of(save(records, folder))))


def test_an_answer_says_what_was_built_ahead_of_time(tmp_path: Path) -> None:
    built: dict[str, Any] = {
        "package_export_s": 1.0, "package_build_s": 30.0, "package_bytes": 3 * 2**20,
    }  # fmt: skip
    shape: dict[str, Any] = {"shape": canonical_json({"batch": 4, "seq": 64})}
    (found,) = advice(
        tmp_path, batch(4, "compile", 1.5), [record("aoti", speedup=2.0, **shape, **built)]
    )
    assert [one.name for one in found.precisions] == ["fp32", "fp32, ahead of time"]
    assert re.search(r"31\.0 s.*3\.00 MiB", found.precisions[1].text)


def test_cold_weights_are_a_work_of_their_own_that_says_what_is_fastest_with_warm_data(
    tmp_path: Path,
) -> None:
    cold: dict[str, Any] = {"data": "cold_weights"}
    found = advice(
        tmp_path,
        [*batch(4, "compile", 1.5), *batch(4, "no_grad", 1.2)[1:]],
        [*batch(4, "compile", 1.2, **cold), *batch(4, "no_grad", 1.5, **cold)[1:]],
    )
    by_data = {advice.recommendations[0].question.data: advice for advice in found}
    assert [by_data[data].precisions[0].spans[0].lead for data in (None, "cold_weights")] == [
        "compile", "no_grad"
    ]  # fmt: skip
    remarks = {data: " ".join(by_data[data].precisions[0].remarks) for data in by_data}
    assert re.search("cold weights.* no_grad.* compile", remarks["cold_weights"])
    assert "no_grad" not in remarks[None]


@pytest.mark.parametrize("mode", ["compile", None])
def test_nothing_is_said_of_warm_data_with_the_same_answer(
    mode: str | None, tmp_path: Path
) -> None:
    warm = batch(4, mode, 1.5) if mode else []
    found = advice(tmp_path, warm, batch(4, "compile", 1.3, data="cold_weights"))
    (cold,) = (each for each in found if "cold weights" in each.work)
    assert not any("warm" in remark for remark in cold.precisions[0].remarks)


UNJUDGED: dict[str, Any] = {"checked": "not", "checked_note": "chaos", "error": 0.8}


@pytest.mark.parametrize(
    ("groups", "spans"),
    [
        (
            [
                batch(64, "compile", 1.25), batch(4, "reduce-overhead", 2.5),
                batch(16, "reduce-overhead", 2.0), batch(1, "reduce-overhead", 3.0),
            ],
            ["batch ≤ 16: reduce-overhead, 2.00 to 3.00× [1.98, 3.03]",
             "batch 64: compile, 1.25× [1.24, 1.26]"],
        ),
        (
            [batch(size, "compile", 1.0 if size == 8 else 1.5) for size in (2, 4, 8, 16)],
            ["batch 2 to 4: compile, 1.50× [1.49, 1.52]", "batch 8: eager",
             "batch 16: compile, 1.50× [1.49, 1.52]"],
        ),
        (
            [at({"batch": 8, "ops": ops}, "compile", 2.0) for ops in (4, 16, 64)],
            ["ops 4 to 64: compile, 2.00× [1.98, 2.02]"],
        ),
        (  # where results are no longer checked
            [batch(1, "compile", 1.5), batch(2, "compile", 1.5),
             batch(4, "compile", 1.5, **UNJUDGED)],
            ["batch ≤ 2: compile, 1.50× [1.49, 1.52]",
             "batch 4: compile (results not checked), 1.50× [1.49, 1.52]"],
        ),
    ],
)  # fmt: skip
def test_a_span_ends_where_the_answer_changes(
    tmp_path: Path, groups: Sequence[Sequence[Record]], spans: Sequence[str]
) -> None:
    ((only,),) = (one.precisions for one in advice(tmp_path, *groups))
    for span, expected in zip(only.spans, spans, strict=True):
        assert f"{span.label}: {span.text}".startswith(expected)


@pytest.mark.parametrize(("sizes", "count"), [(("batch", "seq"), 2), (("depth", "width"), 4)])
def test_batches_are_merged_for_each_value_of_another_size(
    tmp_path: Path, sizes: tuple[str, str], count: int
) -> None:
    grid = [at(dict(zip(sizes, (n, m), strict=True)), "compile", 2.0)
            for n in (2, 4) for m in (64, 512)]  # fmt: skip
    assert len(advice(tmp_path, *grid)) == count


@pytest.mark.parametrize(
    ("column", "values", "in_subject"),
    [
        ("compile_cache", ("cold", "warm"), "fp32, warm cache:"),
        ("threads", (1, 2), "on AMD EPYC 9554, 2 threads, environment A, fp32:"),
    ],
)
def test_sentences_name_the_column_in_which_they_differ(
    tmp_path: Path, column: str, values: tuple[Any, Any], in_subject: str
) -> None:
    sweep = [batch(8, "compile", 2.0, case_id=str(v), **{column: v}) for v in values]
    one, other = (
        f"{each.work}, {precision.text}"
        for each in advice(tmp_path, *sweep)
        for precision in each.precisions
    )
    assert in_subject in other
    assert in_subject not in one


def test_a_remark_on_some_sizes_names_them(tmp_path: Path) -> None:
    flags = {1: (), 8: ("drift",), 16: ("drift",)}
    sweep = [batch(size, "compile", 2.0, flags=raised) for size, raised in flags.items()]
    (remark,) = advice(tmp_path, *sweep)[0].precisions[0].remarks
    assert remark.startswith("At batch 8 and 16: Less certain for compile")


def test_the_precision_whose_mode_gains_most_comes_first(tmp_path: Path) -> None:
    fp32 = [control(), record("no_grad", speedup=1.2)]
    for speedup, order in ((2.0, ["bf16", "fp32"]), (0.7, ["fp32", "bf16"])):
        (one,) = advice(tmp_path / f"{speedup}", [*fp32, record("amp", speedup=speedup)])
        assert [precision.name for precision in one.precisions] == order


def test_for_few_calls_the_first_one_counts_in_the_order_of_precisions(tmp_path: Path) -> None:
    first_s: dict[str, Any] = {"baseline_first_call_s": 1e-4}
    records = [
        control(),
        record("no_grad", speedup=1.2, first_call_s=1e-4, **first_s),
        record("amp-compile", dtype="bf16", speedup=2.0, first_call_s=0.08, **first_s),
    ]
    rows = table_of(save(records, tmp_path))
    for calls, order in ((None, ["bf16", "fp32"]), (300.0, ["fp32", "bf16"])):
        (one,) = fold(recommend(rows, Wishes(calls)))
        assert [precision.name for precision in one.precisions] == order


def test_how_sure_an_answer_is_follows_from_its_least_certain_row(tmp_path: Path) -> None:
    def missed_percent(*spreads: float) -> float:
        modes = zip(("compile", "no_grad"), spreads, strict=False)
        rows = [record(mode, speedup=1.3, spread=spread) for mode, spread in modes]
        certainty = advice(tmp_path / f"{len(spreads)}", [control(), *rows])[0].certainty
        return float(re.findall(r"gains below ([\d.]+) %", certainty)[0])

    assert missed_percent(0.01) < missed_percent(0.01, 0.2)


def test_what_may_be_missed_is_told_of_each_precision(tmp_path: Path) -> None:
    rows = [record("no_grad", speedup=1.3), record("amp", dtype="bf16", speedup=1.3, spread=0.2)]
    (one,) = advice(tmp_path, [control(), *rows])
    found = re.findall(r"([\d.]+) % \((\w+)\)", one.certainty)
    percents = {dtype: float(percent) for percent, dtype in found}
    assert 0 < percents["fp32"] < percents["bf16"]


def test_where_an_interval_is_wide_the_answer_says_to_stop_other_programs(tmp_path: Path) -> None:
    rows = [control(), record("compile", speedup=3.0), record("no_grad", speedup=2.0, spread=1.0)]
    (one,) = advice(tmp_path, rows)
    assert "fp32: no_grad, at least 1.43×" in one.precisions[0].text
    assert wording.DISTURBED_BESIDE in one.certainty
    assert "may be missed" not in one.certainty
    (one,) = advice(
        tmp_path / "compiled alone", [control(), record("compile", speedup=3.0, spread=1)]
    )
    assert f"fp32: undecided: {wording.DISTURBED}" in one.precisions[0].text
    assert not one.precisions[0].spans[0].lead  # no name of a mode, as if it were to be used
    assert wording.DISTURBED in one.certainty


@pytest.mark.parametrize(
    ("baseline", "told"),
    [
        (control(**needs(9 * MIB)), "peak 4.00 MiB (eager 9.00)"),
        (control(**needs(3 * MIB)), "peak 4.00 MiB (eager 3.00)"),
        (control(**needs(2**31)), "peak 4.00 MiB (eager 2.00 GiB)"),
        (control(), "peak 4.00 MiB"),
    ],
)
def test_memory_is_the_peak_beside_that_of_the_baseline_if_it_was_measured(
    tmp_path: Path, baseline: Record, told: str
) -> None:
    (one,) = advice(tmp_path, [baseline, record("no_grad", speedup=1.2, **needs(4 * MIB))])
    assert one.precisions[0].text.endswith(told)


def test_a_second_process_is_named_with_the_cache_that_it_started_with(tmp_path: Path) -> None:
    again = [
        record("compile", speedup=1.5, compile_cache=cache, first_call_s=1.0)
        for cache in ("cold", "warm")
    ]
    folder = save([control(), control(compile_cache="warm"), *again], tmp_path)
    for made in again:
        second: dict[str, Any] = {"confirms": made.attempt.run_id, "replicate": 1}
        parquet.write(row(record("compile", speedup=1.5, **second)), folder / CONFIRMATIONS)
    (one,) = fold(recommend(table_of(folder)))
    assert one.certainty.count("compile fp32 at") == 1
    assert one.certainty.count("compile fp32 (warm cache) at") == 1
