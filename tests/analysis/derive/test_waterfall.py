"""Steps from eager to the floor, and the floor of a call's work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.flags import BEATEN
from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.waterfall import Waterfall, waterfalls
from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.derivations import rows_of_each
from tests.helpers.pass_columns import BOUNDS
from tests.helpers.studies import cpu_clocks, cuda_clocks, record, save

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


def test_one_captured_graph_is_a_step_and_the_last(tmp_path: Path) -> None:
    graphs = {
        "reduce-overhead": ("reduce-overhead", "compile-cuda-graph"),
        "compile-cuda-graph": ("compile-cuda-graph", "cuda-graph"),
    }
    for expected, modes in graphs.items():
        records = [record(mode, speedup=2.0) for mode in ("eager", *modes)]
        (found,) = _found(tmp_path / expected, *records)
        assert [step.row["mode"] for step in found.steps] == ["eager", expected]


def test_untrusted_or_incomparable_rows_are_no_steps(tmp_path: Path) -> None:
    others = [
        record("compile", in_effect=False),
        record("compile", status="wrong_result", reason="why", shape='{"batch":1}'),
        record("compile", budget="smoke", shape='{"batch":2}'),
        record("compile[grad=no_grad]"),
        record("amp"),  # of another group
        record("compile", dtype="bf16", baseline_dtype="bf16"),
    ]
    shapes = dict.fromkeys(one.work.shape for one in others)
    eager = [record("eager", speedup=1.0, shape=shape) for shape in shapes]
    assert _found(tmp_path, *eager, *others) == []


def test_a_floor_above_measured_work_is_dropped(tmp_path: Path) -> None:
    """The compiled call takes 0.2 s, of which 0.18 s are work."""
    beaten = {0.1: False, 0.15: False, 0.19: True, 0.25: True}
    records = []
    for floor_s in beaten:
        planted = BOUNDS | {"least_bytes": 1000, "ceiling_bytes_per_s": 1000 / floor_s}
        planted["model_args"] = f'{{"floor":{floor_s}}}'
        records += [
            record("eager", 0.4, 1.0, **planted, **cpu_clocks(0.4, 0.02), case_id=f"e{floor_s}"),
            record("compile", 0.2, 2.0, **planted, **cpu_clocks(0.2, 0.02), case_id=f"c{floor_s}"),
        ]
    found = {
        json.loads(one.steps[0].row["model_args"])["floor"]: one.floor_s is None
        for one in _found(tmp_path, *records)
    }
    assert found == beaten


def test_a_floor_above_the_work_of_another_mode_is_dropped(tmp_path: Path) -> None:
    fast = record("max-autotune", 0.05, 8.0, **BOUNDS, **cpu_clocks(0.05, 0.01))  # 40 of 50 ms
    slow = [record("eager", 0.4, 1.0, **BOUNDS), record("compile", 0.2, 2.0, **BOUNDS)]
    (before,) = _found(tmp_path / "before", *slow)
    (after,) = _found(tmp_path / "after", *slow, fast)
    assert before.floor_s == pytest.approx(0.05)
    assert after.floor_s is None
    assert [before.beaten, after.beaten] == [False, True]


def _rows(folder: Path, *changes: dict[str, Any]) -> list[Row]:
    records = (record("eager", 0.25, 1.0, **(BOUNDS | columns)) for columns in changes)
    return rows_of_each(folder, records)


def test_the_floor_is_the_longer_of_arithmetic_and_traffic(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [{}, {"flops": 20_000_000_000}, {"flops": 0}]  # no matmuls
    found = [(row["floor_s"], row["floor_bound"]) for row in _rows(tmp_path, *changes)]
    expected = [(0.05, "memory"), (0.2, "compute"), (0.05, "memory")]
    assert found == [(pytest.approx(floor_s), bound) for floor_s, bound in expected]


def test_the_floor_is_unknown_without_one_of_its_four_inputs(tmp_path: Path) -> None:
    rows = _rows(tmp_path, *({name: None} | cpu_clocks(0.25, 0.05) for name in BOUNDS))
    names = ("floor_s", "floor_bound", "roofline_fraction")
    assert {row[name] for row in rows for name in names} == {None}


def test_the_roofline_fraction_refers_to_work_not_latency(tmp_path: Path) -> None:
    on_cpu = (cpu_clocks(0.25, dispatch_s) for dispatch_s in (0.05, None, 0.26))
    rows = _rows(tmp_path, *on_cpu, cuda_clocks(0.01, 0.1))
    assert [row["roofline_fraction"] for row in rows] == [
        pytest.approx(0.05 / 0.2, rel=1e-3), None, None, pytest.approx(0.05 / 0.1),
    ]  # fmt: skip


END = 0.01 * 7 / 11  # of the interval of twelve blocks


def test_work_below_its_floor_by_more_than_its_interval_is_flagged(tmp_path: Path) -> None:
    beaten = {
        0.06: False,
        0.05 / (1 + END) * 1.001: False,  # its interval reaches the floor
        0.05 / (1 + END) * 0.999: True,
        0.01: True,
    }
    rows = _rows(tmp_path, *(cuda_clocks(0.24, device_s) for device_s in beaten))
    assert [list(row["flags"]) == [BEATEN] for row in rows] == list(beaten.values())
    fractions = [0.05 / device_s for device_s in beaten]
    assert [row["roofline_fraction"] for row in rows] == pytest.approx(fractions)


def test_on_a_cpu_dispatch_is_not_compared_with_the_floor(tmp_path: Path) -> None:
    beaten = {None: [], 0.19: [], 0.21: [BEATEN], 0.26: []}
    rows = _rows(tmp_path, *(cpu_clocks(0.25, dispatch_s) for dispatch_s in beaten))
    assert [list(row["flags"]) for row in rows] == list(beaten.values())
