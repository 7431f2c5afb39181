"""Memory by its parts: bars have the planted bytes, and the caption ranks peaks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from modescope.analysis.figures import memory
from modescope.bench.records.results import Record
from tests.helpers.drawings import bars, caption_of, cells, foot, names, numbers, only_axes, rows_of
from tests.helpers.pass_columns import cpu_passes, cuda_passes, pool, trained
from tests.helpers.pass_columns import memory as planted
from tests.helpers.studies import record, training


def _axes(folder: Path, *records: Record) -> Axes:
    return only_axes(memory.draw(rows_of(folder, *records)))


_caption = partial(caption_of, memory.caption)


def test_memory_bars_include_the_free_part_of_a_pool(tmp_path: Path) -> None:
    eager = planted(1000, 300, 200, setup_peak_bytes=500) | pool(0, 0)
    replayed = planted(1000, 0, resident_bytes=1110, setup_peak_bytes=300) | pool(400, 100)
    axes = _axes(
        tmp_path,
        record("eager", device="cuda", **eager),
        record("cuda-graph", device="cuda", **replayed),
    )
    assert bars(axes) == [
        (0, 1000), (1000, 10), (1010, 200), (1210, 100),
        (0, 1000), (1000, 10), (1010, 100), (1110, 300),
    ]  # fmt: skip
    assert axes.patches[-1].get_hatch() == "xxxx"
    # that of the graph would be at 1310, left of its peak
    (mark,) = (line for line in axes.lines if line.get_label() != "_glyph")
    assert np.ravel(mark.get_xdata()).tolist() == [1510, 1510]
    assert numbers(axes) == ["peak 1.28 KiB", "peak 1.38 KiB, 300 B reserved by a pool"]
    marks = "line: the peak of the first call, at least; other resident: mostly the workspace"
    assert marks in foot(axes.figure)


def test_on_a_cpu_the_foot_does_not_name_cublas(tmp_path: Path) -> None:
    axes = _axes(tmp_path, record("eager", **planted(1000, 300, resident_bytes=1500)))
    assert (1010, 490) in bars(axes)
    assert "cuBLAS" not in foot(axes.figure)


def test_growth_of_the_process_is_not_marked_on_the_chart(tmp_path: Path) -> None:
    axes = _axes(tmp_path, *cpu_passes())
    assert {line.get_label() for line in axes.lines} == {"_glyph"}
    assert "first call" not in foot(axes.figure)


def test_gradients_are_in_the_bar_between_steps_and_not_at_the_peak(tmp_path: Path) -> None:
    # held: 1000 weights, 10 inputs, 500 state, 1000 gradients; the peak is 300 above that, and
    # 1300 of it are allocated once gradients are dropped: 1100 saved and 200 of other tensors
    axes = _axes(tmp_path, training("eager", **trained(1000, 300, 1100, state=500)))
    assert bars(axes) == [
        (0, 1000), (1000, 10), (1010, 500), (1510, 1100), (2610, 200),
        (0, 1000), (1000, 10), (1010, 500), (1510, 1000),
    ]  # fmt: skip
    assert numbers(axes) == ["peak 2.74 KiB"]
    assert "lower bar: between two steps" in foot(axes.figure)


def test_gradients_in_a_graph_pool_stay_in_the_bar(tmp_path: Path) -> None:
    replayed = trained(1000, 0, 1100) | pool(1600, 1000) | {"device": "cuda"}
    axes = _axes(tmp_path, training("cuda-graph", parts_s=None, **replayed))
    assert bars(axes) == [(0, 1000), (1000, 10), (1010, 1000), (2010, 600)]
    assert "between two" not in foot(axes.figure)


def test_a_row_with_a_pool_of_unknown_use_is_named_and_not_charted(tmp_path: Path) -> None:
    known = record("eager", device="cuda", **planted(1000, 300), **pool(0, 0))
    unknown = record("cuda-graph", device="cuda", **planted(1000, 0), graph_pool_bytes=400)
    assert names(_axes(tmp_path / "drawn", known, unknown)) == ["eager fp32"]
    caption = _caption(tmp_path / "caption", known, unknown)
    assert caption.endswith("as the live part of the graph pool is: cuda-graph fp32.")


def test_unmeasured_or_untrusted_rows_have_no_caption(tmp_path: Path) -> None:
    assert memory.caption(rows_of(tmp_path / "a", record())) is None
    wrong = record("compile", in_effect=False, **planted(1000, 300))
    assert memory.caption(rows_of(tmp_path / "b", wrong)) is None
    alone = record("no_grad", **planted(2048, 1024))
    assert _caption(tmp_path / "c", alone) == (
        "Equal peaks: no_grad fp32, 3.02 KiB; no mode is known to save activations for backward."
    )


@pytest.mark.parametrize("name", ["resident_bytes", "step_peak_bytes"])
def test_an_unknown_peak_is_not_charted(tmp_path: Path, name: str) -> None:
    lost = record("eager", **(planted(1000, 300) | {name: None}))
    assert memory.draw(rows_of(tmp_path, lost)) is None


def test_parts_of_memory_add_up_to_the_peak(tmp_path: Path) -> None:
    graph = cells(memory.table(rows_of(tmp_path, *cuda_passes())), "cuda-graph", "fp32")
    assert graph["reserved by graph pool"] == "20.0 MiB"
    assert graph["total"] == "86.6 MiB"
    assert graph["saved for backward"] == "0 B"


def test_the_table_of_memory_marks_parts_unknown_at_the_peak(tmp_path: Path) -> None:
    held = trained(1000, 300, 1100, state=500)
    table = memory.table(rows_of(tmp_path, training("eager", **held)))
    peak, between = (dict(zip(table.titles, line, strict=True)) for line in table.rows)
    assert [peak["when"], between["when"]] == ["peak", "between steps"]
    assert [peak["gradients"], between["gradients"]] == ["–", "1000 B"]
    assert [peak["saved for backward"], between["saved for backward"]] == ["1.07 KiB", "0 B"]
    assert [peak["total"], between["total"]] == ["2.74 KiB", "2.45 KiB"]
