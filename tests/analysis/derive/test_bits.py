"""From which size on fewer bits pay, by hand: gains over the same mode with all bits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.derive.bits import Bits, fewer_bits, told
from modescope.analysis.derive.series import series
from modescope.analysis.figures import theme
from modescope.analysis.figures.bits import BITS
from modescope.analysis.recommend.advice import fold
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from modescope.bench.stats.estimates import Estimate
from tests.helpers.drawings import only_axes, rows_of, series_of
from tests.helpers.recommendations import control
from tests.helpers.studies import record

FEW: dict[str, Any] = {
    "axes": '{"quantize":"int8-dynamic"}', "quantize": "int8-dynamic", "error": 1.1e-2,
    "error_limit": 5e-2, "output_cosine": 0.99994, "top1_agreement": 0.985,
    "quantized_share": 0.999,
}  # fmt: skip
INT8 = "compile[quantize=int8-dynamic]"
WIDTHS = (256, 512, 1024, 2048)


def at(mode: str, width: int, speedup: float, batch: int = 32, **columns: Any) -> Record:
    shape = canonical_json({"batch": batch, "width": width})
    return record(mode, 1e-3, speedup, spread=0.005, shape=shape, **columns)


def records(gains: Mapping[int, float], compiled: float = 1.25, batch: int = 32) -> list[Record]:
    full = [at("compile", width, compiled, batch) for width in gains]
    return [*full, *(at(INT8, w, compiled * gain, batch, **FEW) for w, gain in gains.items())]


def only(folder: Path, *made: Record) -> Bits:
    [found] = fewer_bits(series_of(folder, *made))
    return found


@pytest.mark.parametrize(
    ("gains", "pays_at", "where"),
    [
        ((0.5, 0.9, 1.5, 2.0), [1024, 2048], "from width 1024 on (1.50× at 1024, 0.90× at 512)"),
        ((1.2, 1.3, 1.5, 2.0), [*WIDTHS], "at every width from 256 to 2048 (1.20× at 256)"),
        (
            (0.5, 0.5, 0.9, 2.0),
            [2048],
            "at width 2048 only, the largest measured (2.00× at 2048, 0.90× at 1024)",
        ),
        ((2.0, 1.5, 1.01, 0.9), [256, 512], "up to width 512 (1.50× at 512, 1.01× at 1024)"),
        ((0.5, 0.9, 1.0, 1.01), [], "at no width from 256 to 2048"),
        (
            (2.0, 0.9, 1.5, 0.8),
            [256, 1024],
            "at width 256 and 1024 only (2.00× at 256, 0.90× at 512)",
        ),
        ((2.0, 0.5, 1.0, 1.01), [256], "at width 256 only (2.00× at 256, 0.50× at 512)"),
    ],
)
def test_where_it_pays_is_told_by_the_intervals(
    tmp_path: Path, gains: tuple[float, ...], pays_at: list[int], where: str
) -> None:
    found = only(tmp_path, *records(dict(zip(WIDTHS, gains, strict=True))))
    assert (found.over, found.pays_at) == ("compile", pays_at)
    assert [gain.value for gain in found.gains.values()] == pytest.approx(gains)
    assert re.sub(r" \[[^]]*\]", "", found.detailed) == where


def test_each_of_the_other_sizes_has_its_crossing_in_one_sentence(tmp_path: Path) -> None:
    made = [
        row
        for batch, gains in ((32, (0.9, 1.5, 2.0)), (1, (0.5, 0.6, 0.7)))
        for row in records(dict(zip(WIDTHS, gains, strict=False)), batch=batch)
    ]
    ((work, sentence),) = told(rows_of(tmp_path, *made))
    assert work == "transformer, inference"
    batch_1, batch_32 = sentence.partition(": ")[2].split("; ")[:2]
    assert batch_1 == "batch 1 at no width from 256 to 1024"
    assert batch_32.startswith("batch 32 from width 512 on (1.50×")
    assert sentence.endswith("1.1e-2")
    assert told(rows_of(tmp_path / "few", *made[:1])) == []


def test_sizes_whose_result_does_not_count_are_named(tmp_path: Path) -> None:
    made = records({256: 1.5, 512: 1.6, 2048: 1.8})
    lost = (
        at(INT8, 1024, 2.0, **(FEW | {"status": "wrong_result", "reason": "error"})),
        at(INT8, 4096, 2.0, **(FEW | {"in_effect": False})),
    )
    ((_, sentence),) = told(rows_of(tmp_path, *made, *lost))
    assert "every width from 256 to 2048" in sentence
    assert "(1024: wrong result, 4096: not counted)" in sentence


def test_a_second_process_widens_the_gain(tmp_path: Path) -> None:
    confirmed = rows_of(tmp_path, *records(dict.fromkeys(WIDTHS, 1.1))).copy()
    rows = as_rows(confirmed)
    few = [row for row in rows if row["quantize"]]
    for row, again in zip(few, (1.4, 1.375, 1.25, None), strict=True):
        row["confirming_speedup"] = Estimate(again, again * 0.99, again * 1.01) if again else None
    (part,) = series(pd.DataFrame(rows))
    (found,) = fewer_bits(part)
    assert found.pays_at == [256, 512, 2048]
    assert found.gains[256].high == pytest.approx(1.4 * 1.01 / 1.25 * 1.03 * 1.005, rel=0.01)


def test_it_is_compared_where_the_mode_with_all_bits_is_known(tmp_path: Path) -> None:
    made = records(dict(zip(WIDTHS, (0.8, 0.9, 1.5, 2.0), strict=True)))[1:]
    found = only(tmp_path, *made)
    assert (found.over, [*found.gains]) == ("compile", [512, 1024, 2048])
    other = [
        at("compile", width, 3.0, fullgraph=False, case_id=f"{width} in parts") for width in WIDTHS
    ]
    assert only(tmp_path / "other", *made, *other).gains == found.gains


def test_sizes_that_only_some_shapes_name_are_told(tmp_path: Path) -> None:
    alone = [
        record(mode, 1e-3, speedup, spread=0.005, shape=canonical_json({"width": width}),
               batch=None, **columns)
        for width in WIDTHS for mode, speedup, columns in (("compile", 1.25, {}), (INT8, 2.0, FEW))
    ]  # fmt: skip
    ((_, sentence),) = told(rows_of(tmp_path, *records(dict.fromkeys(WIDTHS, 0.9)), *alone))
    assert "batch by default at every width" in sentence
    assert "batch 32 at no width" in sentence


def test_each_place_has_its_sentence(tmp_path: Path) -> None:
    gains = dict.fromkeys(WIDTHS, 1.5)
    two = [
        at(mode, width, speedup, threads=4, case_id=f"{mode} {width} of 4", **columns)
        for width in gains for mode, speedup, columns in (("compile", 2.0, {}), (INT8, 1.0, FEW))
    ]  # fmt: skip
    found = dict(told(rows_of(tmp_path, *records(gains), *two)))
    assert len(found) == 2
    (one, four) = sorted(found)
    assert ("1 thread" in one, "4 threads" in four) == (True, True)
    assert ("at every width" in found[one], "at no width" in found[four]) == (True, True)


def test_without_the_mode_with_all_bits_it_is_compared_with_the_baseline(tmp_path: Path) -> None:
    found = only(tmp_path, *records(dict.fromkeys(WIDTHS, 2.0), compiled=0.75)[len(WIDTHS) :])
    assert found.over == "eager fp32"
    assert [gain.value for gain in found.gains.values()] == pytest.approx([1.5] * 4)


def test_rows_without_fewer_bits_have_neither_figure_nor_sentence(tmp_path: Path) -> None:
    plain = [at("compile", width, 1.25) for width in WIDTHS]
    assert BITS.draw(series_of(tmp_path / "drawn", *plain)) is None
    assert "fewer bits" not in table.advice(rows_of(tmp_path / "told", *plain))


def test_the_figure_has_the_gains_and_their_intervals(tmp_path: Path) -> None:
    made = series_of(tmp_path, *records(dict(zip(WIDTHS, (0.5, 0.9, 1.5, 2.0), strict=True))))
    with theme.look():
        axes = only_axes(BITS.draw(made))
    *ends, middles, one = axes.lines
    assert np.ravel(middles.get_ydata()) == pytest.approx([0.5, 0.9, 1.5, 2.0])
    assert np.ravel(one.get_ydata()) == pytest.approx([1, 1])
    for line, middle in zip(ends, (0.5, 0.9, 1.5, 2.0), strict=True):
        low, high = np.ravel(line.get_ydata())
        assert low < middle < high
    [row] = BITS.table(made).rows
    assert row[:2] == (INT8, "compile")
    assert len(row) == len(BITS.table(made).titles)


def test_fewer_bits_are_a_precision_of_their_own_with_their_error(tmp_path: Path) -> None:
    bf16: dict[str, Any] = {"dtype": "bf16", "error": 4e-3, "error_limit": 2e-2}
    shape = canonical_json({"batch": 32, "width": 512})
    rows = rows_of(
        tmp_path, control(shape=shape), at("compile", 512, 1.2), at("compile", 512, 1.6, **bf16),
        at(INT8, 512, 2.0, **FEW),
    )  # fmt: skip
    answers = recommend(rows)
    assert [(a.question.dtype, a.question.quantize, a.choice.mode) for a in answers] == [
        ("bf16", None, "compile"), ("fp32", None, "compile"),
        ("fp32", "int8-dynamic", INT8),
    ]  # fmt: skip
    [work] = fold(answers)
    assert [precision.name for precision in work.precisions] == [
        "fp32 with int8-dynamic", "bf16", "fp32"
    ]  # fmt: skip
    told = work.precisions[0].text
    assert all(part in told for part in ("error 1.1e-2", "0.999940", "98 %", "99 %"))
    [program] = work.precisions[0].programs.values()
    assert "quantize_(model, Int8DynamicActivationInt8WeightConfig" in program
    assert rows["fusion_gain"][rows["quantize"].notna()].isna().all()
