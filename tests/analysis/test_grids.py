"""Speedups by mode and size: which rows share a grid, what stands where, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from analysis import plotted
from analysis.grids import Grid, grids, reading
from analysis.metrics import derived
from analysis.plots.heatmap import MOST_PANELS, MOST_SIZES, heatmap
from bench.records import Record, canonical_json
from tests.analysis.studies import batch_series, dispatch_series, record, save


def _grids(folder: Path, records: Sequence[Record]) -> list[Grid]:
    return grids(derived(save(records, folder)))


def _at(mode: str, speedup: float, batch: int, seq: int = 64, **columns: Any) -> Record:
    shape = canonical_json({"batch": batch, "seq": seq})
    return record(mode, speedup=speedup, shape=shape, batch=batch, **columns)


def test_modes_are_rows_and_batches_are_columns(tmp_path: Path) -> None:
    (grid,) = _grids(tmp_path, batch_series((1, 4, 64)))
    assert (grid.size, grid.others, grid.sizes) == ("batch", '{"seq":64}', (1, 4, 64))
    assert grid.names == ("eager", "inference_mode", "compile")
    assert [row["batch"] for row in grid.modes[2] if row] == [1, 4, 64]


def test_without_a_size_that_varies_there_is_no_grid(tmp_path: Path) -> None:
    assert _grids(tmp_path, [record("eager"), record("compile")]) == []


def test_the_batch_goes_before_a_size_with_more_values(tmp_path: Path) -> None:
    records = [_at("compile", 1.5, batch, seq) for batch in (1, 8) for seq in (32, 64, 128)]
    found = _grids(tmp_path, records)
    assert [(grid.size, grid.others) for grid in found] == [
        ("batch", '{"seq":32}'), ("batch", '{"seq":64}'), ("batch", '{"seq":128}'),
    ]  # fmt: skip
    (ops,) = _grids(tmp_path / "ops", dispatch_series())
    assert ops.size == "ops"


def test_what_does_not_count_leaves_its_place_empty(tmp_path: Path) -> None:
    records = [
        _at("compile", 1.5, 1), _at("compile", 1.5, 8), _at("compile", 1.5, 64),
        _at("no_grad", 1.1, 1), _at("no_grad", 1.1, 8, in_effect=False),
    ]  # fmt: skip
    (grid,) = _grids(tmp_path, records)
    assert [row is None for row in grid.modes[0]] == [False, True, True]


def test_precisions_and_caches_are_never_mixed(tmp_path: Path) -> None:
    records = [_at("amp", 2.0, 1), _at("amp", 2.0, 8), _at("compile", 1.5, 1)]
    records += [_at("compile", 1.5, 8), _at("compile", 1.6, 8, compile_cache="warm")]
    bf16, fp32 = _grids(tmp_path, records)
    assert bf16.names == ("amp",)
    assert sorted(fp32.names) == ["compile, cold cache", "compile, warm cache"]


def test_the_sentence_names_the_fastest_by_size_and_what_ties_with_it(tmp_path: Path) -> None:
    records = [
        _at("compile", 2.0, 1), _at("compile", 1.5, 8), _at("compile", 0.9, 64),
        _at("no_grad", 1.1, 1), _at("no_grad", 1.501, 8), _at("no_grad", 1.0, 64),
    ]  # fmt: skip
    assert reading(_grids(tmp_path, records)) == (
        "Fastest, fp32 against eager fp32, at batch 1: compile; at batch 8: no_grad (or compile: "
        "intervals overlap); at batch 64: none is shown to be faster."
    )


def test_colours_are_equally_strong_for_twice_and_for_half(tmp_path: Path) -> None:
    figure = heatmap(_grids(tmp_path, [_at("compile", 2.0, 1), _at("compile", 0.5, 8)]))
    (axes,) = figure.axes
    colours = [np.ravel(cell.get_facecolor())[:3] for cell in axes.patches]
    assert len(colours) == 2
    assert colours[0][2] > colours[0][1]  # purple: more blue than green
    assert colours[1][0] > colours[1][2]  # orange: more red than blue
    told = [text for text in axes.texts if text.get_label() not in ("name", "numbers")]
    assert [text.get_text() for text in told] == ["2.00×", "0.50×"]
    assert [text.get_fontweight() for text in told] == ["bold", "bold"]


def test_a_cell_that_is_empty_says_so_and_has_no_colour(tmp_path: Path) -> None:
    records = [_at("compile", 2.0, 1), _at("compile", 2.0, 8), _at("no_grad", 1.0, 1)]
    (axes,) = heatmap(_grids(tmp_path, records)).axes
    cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(cells) == 3
    assert [text.get_text() for text in axes.texts].count("–") == 1


def test_many_sizes_and_panels_are_left_out_and_told(tmp_path: Path) -> None:
    wide = heatmap(_grids(tmp_path, batch_series([2**power for power in range(12)])))
    labels = [label.get_text() for label in wide.axes[0].get_xticklabels()]
    assert len(labels) == MOST_SIZES
    assert (labels[0], labels[-1]) == ("1", "2048")
    assert any("4 sizes not drawn" in text.get_text() for text in wide.axes[0].texts)
    many = [_at("compile", 1.5, b, s) for b in (1, 8) for s in range(1, MOST_PANELS + 3)]
    figure = heatmap(_grids(tmp_path / "many", many))
    assert len(figure.axes) == MOST_PANELS
    foot = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    assert "2 more rows are in the table only" in foot


def test_the_table_has_every_size_of_every_grid(tmp_path: Path) -> None:
    records = [_at("compile", 1.5, 1), _at("compile", 1.6, 8), _at("amp", 2.0, 8)]
    table = plotted.speedup_grid(_grids(tmp_path, [*records, _at("amp", 2.0, 16)]))
    assert table.titles == ("mode", "comparison", "batch 1", "batch 8", "batch 16")
    amp, compiled = (line[2:] for line in table.rows)
    assert [cell.partition("×")[0] for cell in amp] == ["–", "2.00", "2.00"]
    assert [cell.partition("×")[0] for cell in compiled] == ["1.500", "1.60", "–"]


def test_no_grid_is_no_figure() -> None:
    assert heatmap([]) is None


@pytest.mark.parametrize("speedup", [1e-3, 1e3])
def test_no_speedup_is_beyond_the_colours(tmp_path: Path, speedup: float) -> None:
    figure = heatmap(_grids(tmp_path, [_at("compile", speedup, 1), _at("compile", 1.0, 8)]))
    assert len(figure.axes[0].patches) == 2
