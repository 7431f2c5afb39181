"""Latency and overhead over a size: lines have the planted times, the caption states crossings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.figures import scaling
from tests.helpers.drawings import cells, only_axes, series_of
from tests.helpers.studies import (
    batch_series,
    compiled_in_pieces,
    cpu_clocks,
    dispatch_series,
    record,
)


def test_a_line_per_mode_with_a_cross_where_dispatch_is_half(tmp_path: Path) -> None:
    found = series_of(tmp_path, *batch_series())
    left, dispatch = scaling.draw(found).axes
    lines = [line for line in left.lines if line.get_marker() != "x"]
    crosses = [line for line in left.lines if line.get_marker() == "x"]
    assert [len(lines), len(crosses), len(dispatch.lines)] == [3, 3, 3]
    assert left.get_xscale() == left.get_yscale() == "log"
    assert left.get_ylim() == dispatch.get_ylim()
    assert np.ravel(lines[0].get_ydata()) * 1e6 == pytest.approx([51, 54, 66, 114, 306])
    crossing = found.lines[0].crossing
    assert crossing is not None
    assert np.ravel(crosses[0].get_xdata())[0] == crossing.size


def test_without_any_overhead_only_the_latency_is_drawn(tmp_path: Path) -> None:
    unread = [record(shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    axes = only_axes(scaling.draw(series_of(tmp_path, *unread)))
    assert len(axes.lines) == 1


def test_lines_exclude_untrusted_rows(tmp_path: Path) -> None:
    spoiled = batch_series(in_effect=False)[:5]  # all of eager
    found = series_of(tmp_path, *batch_series()[5:], *spoiled)
    assert sorted(line.name for line in found.lines) == ["compile", "inference_mode"]


def test_two_lines_of_one_mode_are_drawn_differently(tmp_path: Path) -> None:
    found = series_of(tmp_path, *batch_series(), *compiled_in_pieces())
    for axes in scaling.draw(found).axes:
        looks = [
            (one.get_color(), one.get_marker(), str(one.get_linestyle()), one.get_fillstyle())
            for one in axes.lines if one.get_marker() != "x"
        ]  # fmt: skip
        assert len(set(looks)) == len(looks) == 4


def test_both_clocks_are_in_the_table_at_every_size(tmp_path: Path) -> None:
    table = scaling.table(series_of(tmp_path, *dispatch_series((4, 8, 16))))
    assert table.titles == ("mode", "clock", "ops 4", "ops 8", "ops 16")
    assert cells(table, "compile", "dispatch")["ops 4"] == "12.2 µs"
