"""The answers of a work in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modescope.analysis.recommend.advice import fold
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report.headline import Part, parts
from modescope.bench.records.results import Record
from tests.helpers.derivations import table_of
from tests.helpers.recommendations import control
from tests.helpers.studies import record, save


def line(folder: Path, *records: Record) -> list[Part]:
    (work,) = fold(recommend(table_of(save(records, folder))))
    return parts(work)


def test_both_precisions_are_named_and_the_error_of_the_lower(tmp_path: Path) -> None:
    low = record("inference_mode", speedup=2.19, dtype="bf16", error=4e-3)
    first, second = line(tmp_path, control(), record("no_grad", speedup=1.05, spread=1e-3), low)
    assert (first.before, first.lead) == ("bf16: ", "inference_mode")
    assert ("2.19×" in first.rest, "4.0e-3" in first.rest) == (True, True)
    assert ("(fp32)" in second.before, second.lead, second.rest) == (True, "no_grad", " 1.05×")


def test_of_a_precision_without_gain_the_baseline_is_named(tmp_path: Path) -> None:
    slow = record("amp", speedup=0.5)
    first, second = line(tmp_path, control(), record("no_grad", speedup=1.2), slow)
    assert (first.before, first.lead, first.rest) == ("fp32: ", "no_grad", " 1.20×")
    assert (second.before, second.lead) == ("bf16: ", "eager")
    assert second.rest.startswith(" fp32 (")


def test_filled_caches_and_what_cannot_be_answered_are_left_out(tmp_path: Path) -> None:
    warm: dict[str, Any] = {"compile_cache": "warm"}
    filled = [control(**warm), record("compile", speedup=3.0, **warm)]
    wrong = record("amp", status="wrong_result", reason="error")
    found = line(tmp_path, control(), record("compile", speedup=2.0), *filled, wrong)
    assert [(part.before, part.lead) for part in found] == [("fp32: ", "compile")]


def test_fewer_bits_are_named_where_they_gain(tmp_path: Path) -> None:
    few: dict[str, Any] = {"axes": '{"quantize":"int8-dynamic"}', "quantize": "int8-dynamic"}
    for speedup, named in (
        (0.5, ["no_grad"]),
        (3.0, ["compile[quantize=int8-dynamic]", "no_grad"]),
    ):
        quantized = record("compile[quantize=int8-dynamic]", speedup=speedup, **few)
        found = line(tmp_path / f"{speedup}", control(), record("no_grad", speedup=2.0), quantized)
        assert [part.lead for part in found] == named
        assert ("relative error" in found[0].rest) is bool(named[1:])


def test_without_a_gain_at_one_of_several_sizes_the_reason_stands_below(tmp_path: Path) -> None:
    sizes: list[dict[str, Any]] = [{"shape": f'{{"batch":{n}}}', "batch": n} for n in (1, 8)]
    found = line(
        tmp_path, *(control(**size) for size in sizes),
        record("no_grad", speedup=0.8, **sizes[0]), record("no_grad", speedup=2.0, **sizes[1]),
    )  # fmt: skip
    assert [(part.before, part.lead) for part in found] == [
        ("fp32: batch 1: ", "eager"), ("batch 8: ", "no_grad"),
    ]  # fmt: skip
    assert found[0].rest == ""


def test_one_mode_at_every_size_is_named_once_and_two_with_their_sizes(tmp_path: Path) -> None:
    def at(batch: int, mode: str, speedup: float, **more: Any) -> list[Record]:
        size: dict[str, Any] = {"shape": f'{{"batch":{batch}}}', "batch": batch}
        return [control(**size), record(mode, speedup=speedup, **size, **more)]

    (only,) = line(tmp_path / "one", *at(1, "compile", 2.0), *at(8, "compile", 3.0))
    assert (only.before, only.lead) == ("fp32: batch 1 to 8: ", "compile")
    assert only.rest == " 2.00× to 3.00×"
    unchecked = at(8, "compile", 3.0, checked="not")
    (only,) = line(tmp_path / "unchecked", *at(1, "compile", 2.0), *unchecked)
    assert (only.before, only.lead) == ("fp32: ", "compile")
    assert only.rest.endswith("checked) 2.00× to 3.00×")
    found = line(tmp_path / "two", *at(1, "compile", 2.0), *at(8, "no_grad", 3.0))
    assert [(part.before, part.lead) for part in found] == [
        ("fp32: batch 1: ", "compile"),
        ("batch 8: ", "no_grad"),
    ]


def test_a_speedup_over_another_baseline_says_so(tmp_path: Path) -> None:
    over = record("compile", speedup=1.3, dtype="bf16", baseline_dtype="bf16", error=3e-3)
    first, second = line(tmp_path, control(), record("no_grad", speedup=2.0), over)
    assert (first.before, second.before, second.lead) == ("fp32: ", "bf16: ", "compile")
    assert second.rest.startswith(" 1.30× over eager bf16, ")
