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
from tests.helpers.pass_columns import BOUNDS, cpu_passes, cuda_passes
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


def test_the_best_row_of_each_mode_is_named(tmp_path: Path) -> None:
    both = [
        record("compile", 100e-6 / speedup, speedup, case_id=f"{speedup}", fullgraph=whole, **SURE)
        for speedup, whole in ((2.0, True), (1.5, False))
    ]
    caption = _caption(tmp_path, record("eager", 100e-6, 1.0, **SURE), *both)
    assert "compile (fullgraph=true) saves 50.0 µs" in caption


def test_without_two_steps_there_is_no_caption(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, record("eager", speedup=1.0), record("compile", in_effect=False))
    assert waterfall.caption(rows) is None


def test_the_caption_states_the_steps_and_the_distance_to_the_floor(tmp_path: Path) -> None:
    caption = _caption(tmp_path / "cpu", *cpu_passes())
    assert caption == (
        "From eager (468 µs): no_grad saves 13.0 µs, compile saves 143 µs; undecided by the "
        "intervals: inference_mode. The last step takes 4.6× the floor of 67.0 µs, set by "
        "bandwidth (pointwise arithmetic is not counted)."
    )
    on_cuda = _caption(tmp_path / "cuda", *cuda_passes())
    assert "compile saves 40.0 µs, reduce-overhead saves 38.0 µs" in on_cuda


def test_an_unknown_floor_is_stated(tmp_path: Path) -> None:
    two = [record("eager", 1e-4, 1.0), record("compile", 2e-4, 0.5, work_note="odd operators")]
    caption = _caption(tmp_path / "a", *two)
    assert caption.endswith(
        "compile adds 100 µs. The distance to the floor is unknown: odd operators."
    )
    slow = [record("eager", 0.4, 1.0, **BOUNDS), record("compile", 0.2, 2.0, **BOUNDS)]
    known = _caption(tmp_path / "b", *slow)
    assert known.endswith("The last step takes 4.0× the floor of 50.0 ms, set by bandwidth.")


@pytest.mark.parametrize("floor_s", [0.15, 0.19])
def test_a_dropped_floor_has_no_distance_in_the_caption(tmp_path: Path, floor_s: float) -> None:
    """The compiled call takes 0.2 s, of which 0.18 s are work."""
    planted = BOUNDS | {"least_bytes": 1000, "ceiling_bytes_per_s": 1000 / floor_s}
    caption = _caption(
        tmp_path,
        record("eager", 0.4, 1.0, **planted, **cpu_clocks(0.4, 0.02)),
        record("compile", 0.2, 2.0, **planted, **cpu_clocks(0.2, 0.02)),
    )
    beaten = floor_s > 0.18
    assert ("The last step takes" in caption) != beaten
    assert caption.endswith("the work was faster than the measured ceilings allow.") == beaten


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
