"""From which size on fewer bits pay, by hand: gains over the same mode with all bits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis import table
from modescope.analysis.derive.bits import Bits, fewer_bits, sentences
from modescope.analysis.figures import theme
from modescope.analysis.figures.bits import BITS
from modescope.analysis.recommend.advice import fold
from modescope.analysis.recommend.decide import recommend
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
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
    (told,) = sentences(rows_of(tmp_path, *made))
    batch_1, batch_32 = told.partition(": ")[2].split("; ")[:2]
    assert batch_1 == "batch 1 at no width from 256 to 1024"
    assert batch_32.startswith("batch 32 from width 512 on (1.50×")
    assert told.endswith("1.1e-2")
    assert sentences(rows_of(tmp_path / "few", *made[:1])) == []


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
