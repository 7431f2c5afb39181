from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.waterfall import Waterfall, waterfalls
from modescope.bench.records.results import Record
from tests.helpers.pass_columns import BOUNDS
from tests.helpers.studies import cpu_clocks, record, save

SURE: dict[str, Any] = {"spread": 0.002}


def _found(folder: Path, *records: Record) -> list[Waterfall]:
    return waterfalls(derived(save(records, folder)))


def test_each_step_is_faster_than_the_one_before(tmp_path: Path) -> None:
    (found,) = _found(
        tmp_path,
        record("compile", 50e-6, 2.0, **SURE),
        record("eager", 100e-6, 1.0, **SURE),
        record("inference_mode", 80e-6, 1.25, **SURE),
    )
    assert [step.row["mode"] for step in found.steps] == ["eager", "inference_mode", "compile"]
    levels = [step.level.value * 1e6 for step in found.steps]
    assert levels == pytest.approx([100, 80, 50], rel=1e-3)
    off = [step.off.value * 1e6 for step in found.steps if step.off]
    assert off == pytest.approx([20, 30], rel=1e-3)
    assert [step.change for step in found.steps[1:]] == ["less", "less"]


def test_the_best_row_of_each_mode_is_its_step(tmp_path: Path) -> None:
    eager = record("eager", 100e-6, 1.0, **SURE)
    both = [
        record("compile", 100e-6 / speedup, speedup, case_id=f"{speedup}", fullgraph=whole, **SURE)
        for speedup, whole in ((2.0, True), (1.5, False))
    ]
    (found,) = _found(tmp_path / "one", eager, *both)
    assert [step.row["speedup"] for step in found.steps][1] == pytest.approx(2, rel=1e-3)
    (again,) = _found(tmp_path / "other", *reversed(both), eager)
    assert [step.row["fullgraph"] for step in again.steps][1] is True


def test_levels_are_paired_with_the_baseline(tmp_path: Path) -> None:
    """The compiled process was 10 % slower, and so was its own baseline."""
    (found,) = _found(
        tmp_path,
        record("eager", 100e-6, 1.0, **SURE),
        record("no_grad", 100e-6, 1.0, **SURE),
        record("compile", 55e-6, 2.0, **SURE),
    )
    assert found.steps[-1].level.value == pytest.approx(50e-6, rel=1e-3)


def test_a_step_is_undecided_where_intervals_overlap(tmp_path: Path) -> None:
    (found,) = _found(
        tmp_path,
        record("eager", 100e-6, 1.0),
        record("no_grad", 99e-6, 1.01),
        record("inference_mode", 120e-6, 0.84),
    )
    assert [step.change for step in found.steps] == ["open", "open", "more"]


@pytest.mark.parametrize(
    ("graphs", "expected"),
    [
        (("reduce-overhead", "compile-cuda-graph"), "reduce-overhead"),
        (("compile-cuda-graph", "cuda-graph"), "compile-cuda-graph"),
    ],
)
def test_one_captured_graph_is_a_step_and_the_last(
    tmp_path: Path, graphs: tuple[str, ...], expected: str
) -> None:
    records = [record(mode, speedup=2.0) for mode in graphs]
    (found,) = _found(tmp_path, record("eager", speedup=1.0), *records)
    assert [step.row["mode"] for step in found.steps] == ["eager", expected]


@pytest.mark.parametrize(
    "other",
    [
        record("compile", in_effect=False),
        record("compile", status="wrong_result", reason="why"),
        record("compile", budget="smoke"),
        record("compile[grad=no_grad]"),
        record("amp"),  # of another group
        record("compile", dtype="bf16", baseline_dtype="bf16"),
    ],
    ids=["not in effect", "wrong", "smoke", "override", "autocast", "dtype"],
)
def test_untrusted_or_incomparable_rows_are_no_steps(tmp_path: Path, other: Record) -> None:
    assert _found(tmp_path, record("eager", speedup=1.0), other) == []


@pytest.mark.parametrize(
    ("floor_s", "beaten"), [(0.1, False), (0.15, False), (0.19, True), (0.25, True)]
)
def test_a_floor_above_measured_work_is_dropped(
    tmp_path: Path, floor_s: float, beaten: bool
) -> None:
    """The compiled call takes 0.2 s, of which 0.18 s are work."""
    planted = BOUNDS | {"least_bytes": 1000, "ceiling_bytes_per_s": 1000 / floor_s}
    records = [
        record("eager", 0.4, 1.0, **planted, **cpu_clocks(0.4, 0.02)),
        record("compile", 0.2, 2.0, **planted, **cpu_clocks(0.2, 0.02)),
    ]
    (found,) = _found(tmp_path, *records)
    assert (found.floor_s is None) == beaten


def test_a_floor_above_the_work_of_another_mode_is_dropped(tmp_path: Path) -> None:
    fast = record("max-autotune", 0.05, 8.0, **BOUNDS, **cpu_clocks(0.05, 0.01))  # 40 of 50 ms
    slow = [record("eager", 0.4, 1.0, **BOUNDS), record("compile", 0.2, 2.0, **BOUNDS)]
    (before,) = _found(tmp_path / "before", *slow)
    (after,) = _found(tmp_path / "after", *slow, fast)
    assert before.floor_s == pytest.approx(0.05)
    assert after.floor_s is None
    assert [before.beaten, after.beaten] == [False, True]
