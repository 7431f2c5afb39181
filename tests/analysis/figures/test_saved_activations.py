"""Bytes saved over a size: lines have the planted bytes, and the caption states them per unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.figures import saved_activations
from modescope.analysis.format import style
from modescope.bench.records.results import Record
from tests.helpers.drawings import only_axes, series_of
from tests.helpers.pass_columns import cpu_training
from tests.helpers.studies import saving_steps, training

KIB = 1024


def _sweep() -> list[Record]:
    return [one for batch in (1, 8, 64) for one in cpu_training(batch)]


def test_saved_bytes_are_lines_over_the_batch(tmp_path: Path) -> None:
    axes = only_axes(saved_activations.draw(series_of(tmp_path, *_sweep())))
    lines = {str(line.get_label()): line for line in axes.lines}
    assert list(lines) == [
        "eager fp32", "amp bf16", "compile fp32", "amp-compile bf16", "proportional to batch",
    ]  # fmt: skip
    points = {name: np.ravel(line.get_ydata()) / 1024 for name, line in lines.items()}
    assert points["eager fp32"].tolist() == [640, 5120, 40960]
    assert points["amp bf16"].tolist() == [320 + 6144, 2560 + 6144, 20480 + 6144]
    # what grows in proportion ends in the first mode's last point: batch times 640 KiB
    assert points["proportional to batch"].tolist() == [640, 40960]
    assert np.ravel(lines["eager fp32"].get_xdata()).tolist() == [1, 8, 64]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert lines["amp bf16"].get_color() == style.AMP.colour


@pytest.mark.parametrize(
    "saved",
    [
        (0, 0, 0),
        (None, None, None),
        (4 * KIB, None, 16 * KIB),  # a line fits any two points
    ],
)
def test_without_known_saved_bytes_there_is_no_figure(
    tmp_path: Path, saved: tuple[int | None, ...]
) -> None:
    assert saved_activations.draw(series_of(tmp_path, *saving_steps("eager", saved))) is None


def test_untrusted_sizes_are_not_drawn(tmp_path: Path) -> None:
    steps = [one for n in (1, 8, 64, 128) for one in cpu_training(n)[:1]]
    shape: dict[str, Any] = {"shape": '{"batch":256,"seq":64}', "batch": 256}
    wrong = training("eager", in_effect=False, saved_activation_bytes=4096, **shape)
    axes = only_axes(saved_activations.draw(series_of(tmp_path, *steps, wrong)))
    assert np.ravel(axes.lines[0].get_xdata()).tolist() == [1, 8, 64, 128]


def test_the_table_of_saved_activations_lists_each_size(tmp_path: Path) -> None:
    table = saved_activations.table(series_of(tmp_path, *_sweep()))
    assert table.titles == ("mode", "batch 1", "batch 8", "batch 64")
    assert table.rows[0] == ("eager fp32", "640 KiB", "5.00 MiB", "40.0 MiB")
