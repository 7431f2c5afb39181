"""From eager to the floor: bars have the planted steps, the caption states the distance left."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.figures import waterfall
from tests.helpers.drawings import (
    US,
    bars,
    caption_of,
    cells,
    names,
    numbers,
    only_axes,
    opacity,
    rows_of,
)
from tests.helpers.pass_columns import cpu_passes
from tests.helpers.studies import cpu_clocks, record

SURE: dict[str, Any] = {"spread": 0.002}


def test_a_waterfall_descends_from_eager_to_the_floor(tmp_path: Path) -> None:
    floor: dict[str, Any] = {
        "flops": 4,
        "least_bytes": 2,
        "ceiling_flops_per_s": 2e5,
        "ceiling_bytes_per_s": 1e6,
    }
    rows = rows_of(
        tmp_path,
        record("eager", 100e-6, 1.0, **SURE),
        record("inference_mode", 99.9e-6, 1.001, **SURE),
        record("compile", 50e-6, 2.0, **SURE, **floor),
        record("reduce-overhead", 60e-6, 100 / 60, **SURE, **floor),
    )
    axes = only_axes(waterfall.draw(rows))
    assert names(axes) == ["eager", "inference_mode", "compile", "reduce-overhead", "floor"]
    assert np.round(bars(axes, US), 0).tolist() == [
        [0, 100], [100, 0], [100, -50], [50, 10], [0, 20], [20, 40],
    ]  # fmt: skip
    assert [place for place in range(6) if opacity(axes, place) == 0] == [1, 5]
    assert axes.patches[3].get_hatch() == "////"  # it adds
    assert numbers(axes)[2:] == ["50.0 µs  (−49.9 µs)", "60.0 µs  (+10.0 µs)", "20.0 µs, compute"]


@pytest.mark.parametrize("floor_s", [60e-6, 49e-6])  # above the last level; above its work only
def test_a_floor_above_measured_work_is_not_drawn(tmp_path: Path, floor_s: float) -> None:
    beaten: dict[str, Any] = {
        "flops": 0,
        "least_bytes": 1000,
        "ceiling_flops_per_s": 1.0,
        "ceiling_bytes_per_s": 1000 / floor_s,
    }
    fast = record("compile", 50e-6, 2.0, **SURE, **beaten, **cpu_clocks(50e-6, 5e-6))
    axes = only_axes(waterfall.draw(rows_of(tmp_path, record("eager", 100e-6, 1.0, **SURE), fast)))
    assert names(axes) == ["eager", "compile"]
    assert np.round(bars(axes, US), 0).tolist() == [[0, 100], [100, -50]]


_caption = partial(caption_of, waterfall.caption)


def test_without_two_steps_there_is_no_caption(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, record("eager", speedup=1.0), record("compile", in_effect=False))
    assert waterfall.caption(rows) is None


def test_every_precision_has_its_own_waterfall(tmp_path: Path) -> None:
    half: dict[str, Any] = {"dtype": "bf16", "baseline_dtype": "bf16"}
    both = [
        record(mode, speedup=speedup, **columns)
        for columns in ({}, half)
        for mode, speedup in (("eager", 1.0), ("compile", 2.0))
    ]
    caption = _caption(tmp_path, *both)
    assert caption.index("From eager bf16 (") < caption.index("From eager fp32 (")


def test_the_table_states_what_each_step_saves_and_the_floor(tmp_path: Path) -> None:
    table = waterfall.table(rows_of(tmp_path, *cpu_passes()))
    assert cells(table, "eager", "fp32")["saved by this step [95 %]"] == "–"
    assert cells(table, "compile", "fp32")["saved by this step [95 %]"].startswith("143 µs")
    assert cells(table, "floor", "fp32")["time of a call [95 %]"] == "67.0 µs (memory)"
