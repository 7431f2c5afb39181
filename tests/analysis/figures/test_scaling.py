"""Latency and overhead over a size: lines have the planted times, the caption states crossings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.figures import scaling
from tests.helpers.drawings import cells, only_axes, series_of
from tests.helpers.studies import (
    batch_series,
    compiled_in_pieces,
    cpu_clocks,
    cuda_clocks,
    cuda_series,
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


def test_the_caption_states_up_to_which_size_overhead_is_the_bottleneck(tmp_path: Path) -> None:
    caption = scaling.caption(series_of(tmp_path, *batch_series()))
    assert caption == (
        "Bound by overhead (dispatch takes more than half of the call): eager up to about batch 46 "
        "(by the intervals between 16 and 64); inference_mode up to about batch 29 (by the "
        "intervals between 16 and 64); compile up to about batch 8.9 (by the intervals between 4 "
        "and 16)."
    )


def test_on_cuda_host_time_is_compared_with_device_time(tmp_path: Path) -> None:
    assert scaling.caption(series_of(tmp_path, *cuda_series("batch"))) == (
        "Bound by overhead (the host is busy for longer than the device): eager up to about batch "
        "20 (by the intervals between 16 and 64); cuda-graph up to about batch 6 (by the intervals "
        "between 4 and 16)."
    )


def test_a_crossing_outside_the_intervals_is_stated(tmp_path: Path) -> None:
    shares = {1: 0.501, 2: 0.5005, 4: 0.499}
    found = series_of(
        tmp_path,
        *(
            record("eager", 1e-4, shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, share * 1e-4))
            for n, share in shares.items()
        ),
    )
    assert "(by the intervals undecided)" in scaling.caption(found)


@pytest.mark.parametrize(
    ("sizes", "expected"), [((1, 2, 4), "at every size"), ((128, 256, 512), "at no size")]
)
def test_without_a_crossing_the_caption_names_one_side_for_all_sizes(
    tmp_path: Path, sizes: tuple[int, ...], expected: str
) -> None:
    caption = scaling.caption(series_of(tmp_path, *batch_series(sizes)))
    assert caption.endswith(f": eager, inference_mode, compile {expected}.")


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        (cpu_clocks(1e-4, None), "unknown, as dispatch time is missing"),
        (cuda_clocks(5e-5, None), "unknown, as host or device time is missing"),
    ],
    ids=["cpu", "cuda"],
)
def test_without_a_clock_the_side_is_unknown(
    tmp_path: Path, clocks: dict[str, Any], expected: str
) -> None:
    lines = [record("eager", 1e-4, shape=f'{{"batch":{n}}}', **clocks) for n in (1, 2, 4)]
    assert scaling.caption(series_of(tmp_path, *lines)).endswith(f": eager {expected}.")


def test_a_share_that_wavers_around_half_is_undecided(tmp_path: Path) -> None:
    wavering = [
        record("eager", 1e-4, shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, share * 1e-4))
        for n, share in enumerate((0.6, 0.4, 0.6, 0.4), start=1)
    ]
    caption = scaling.caption(series_of(tmp_path, *wavering))
    assert caption.endswith(": eager undecided by the intervals.")


def test_both_clocks_are_in_the_table_at_every_size(tmp_path: Path) -> None:
    table = scaling.table(series_of(tmp_path, *dispatch_series((4, 8, 16))))
    assert table.titles == ("mode", "clock", "ops 4", "ops 8", "ops 16")
    assert cells(table, "compile", "dispatch")["ops 4"] == "12.2 µs"
