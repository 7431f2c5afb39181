from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import waterfall
from analysis.metrics import derived
from analysis.waterfall import Waterfall, waterfalls
from bench.records import Record
from tests.analysis.passes import BOUNDS, cpu_passes, cuda_passes
from tests.analysis.studies import cpu_clocks, record, save

SURE: dict[str, Any] = {"spread": 0.002}


def _found(folder: Path, *records: Record) -> list[Waterfall]:
    return waterfalls(derived(save(records, folder)))


def test_each_step_takes_something_off_the_one_before(tmp_path: Path) -> None:
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
    assert [step.told for step in found.steps[1:]] == ["less", "less"]


def test_of_several_rows_of_a_mode_the_best_is_a_step_and_is_named(tmp_path: Path) -> None:
    eager = record("eager", 100e-6, 1.0, **SURE)
    both = [
        record("compile", 100e-6 / speedup, speedup, case_id=f"{speedup}", fullgraph=whole, **SURE)
        for speedup, whole in ((2.0, True), (1.5, False))
    ]
    (found,) = _found(tmp_path / "one", eager, *both)
    assert [step.row["speedup"] for step in found.steps][1] == pytest.approx(2, rel=1e-3)
    (again,) = _found(tmp_path / "other", *reversed(both), eager)
    assert [step.row["fullgraph"] for step in again.steps][1] is True
    told = waterfall.reading(derived(tmp_path / "one"))
    assert "compile (fullgraph=true) takes off 50.0 µs" in told


def test_levels_are_paired_and_not_raw(tmp_path: Path) -> None:
    """The compiled process was 10 % slower in all it did; its baseline shows it."""
    (found,) = _found(
        tmp_path,
        record("eager", 100e-6, 1.0, **SURE),
        record("no_grad", 100e-6, 1.0, **SURE),
        record("compile", 55e-6, 2.0, **SURE),
    )
    assert found.steps[-1].level.value == pytest.approx(50e-6, rel=1e-3)


def test_a_step_is_open_where_intervals_overlap_and_may_add(tmp_path: Path) -> None:
    (found,) = _found(
        tmp_path,
        record("eager", 100e-6, 1.0),
        record("no_grad", 99e-6, 1.01),
        record("inference_mode", 120e-6, 0.84),
    )
    assert [step.told for step in found.steps] == ["open", "open", "more"]


@pytest.mark.parametrize(
    ("graphs", "expected"),
    [
        (("reduce-overhead", "compile-cuda-graph"), "reduce-overhead"),
        (("compile-cuda-graph", "cuda-graph"), "compile-cuda-graph"),
    ],
)
def test_one_compiled_graph_is_the_last_step(
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
def test_what_does_not_count_or_compare_is_no_step(tmp_path: Path, other: Record) -> None:
    folder = save([record("eager", speedup=1.0), other], tmp_path)
    assert waterfalls(derived(folder)) == []
    assert waterfall.reading(derived(folder)) is None


def test_the_reading_tells_the_steps_and_what_is_left(tmp_path: Path) -> None:
    told = waterfall.reading(derived(save(cpu_passes(), tmp_path / "cpu")))
    assert told == (
        "From eager (468 µs): no_grad takes off 13.0 µs, compile takes off 143 µs; the intervals "
        "leave open the effect of inference_mode. What is left is 4.6× the floor of 67.0 µs that "
        "bandwidth sets (pointwise arithmetic is not counted)."
    )
    on_cuda = waterfall.reading(derived(save(cuda_passes(), tmp_path / "cuda")))
    assert on_cuda is not None
    assert "compile takes off 40.0 µs, reduce-overhead takes off 38.0 µs" in on_cuda


def test_an_unknown_floor_is_said_to_be_unknown(tmp_path: Path) -> None:
    two = [record("eager", 1e-4, 1.0), record("compile", 2e-4, 0.5, work_note="odd operators")]
    told = waterfall.reading(derived(save(two, tmp_path / "a")))
    assert told is not None
    assert told.endswith("compile adds 100 µs. How much could still be had is unknown: odd "
                         "operators.")  # fmt: skip
    slow = [record("eager", 0.4, 1.0, **BOUNDS), record("compile", 0.2, 2.0, **BOUNDS)]
    known = waterfall.reading(derived(save(slow, tmp_path / "b")))
    assert known is not None
    assert known.endswith("What is left is 4.0× the floor of 50.0 ms that bandwidth sets.")


@pytest.mark.parametrize(
    ("floor_s", "beaten"), [(0.1, False), (0.15, False), (0.19, True), (0.25, True)]
)
def test_nothing_is_left_above_a_floor_that_was_beaten(
    tmp_path: Path, floor_s: float, beaten: bool
) -> None:
    """Compiled it takes 0.2 s, of which 0.18 are work."""
    planted = BOUNDS | {"least_bytes": 1000, "ceiling_bytes_per_s": 1000 / floor_s}
    records = [
        record("eager", 0.4, 1.0, **planted, **cpu_clocks(0.4, 0.02)),
        record("compile", 0.2, 2.0, **planted, **cpu_clocks(0.2, 0.02)),
    ]
    rows = derived(save(records, tmp_path))
    (found,) = waterfalls(rows)
    told = waterfall.reading(rows)
    assert told is not None
    assert (found.floor_s is None) == beaten
    assert ("What is left" in told) != beaten
    assert told.endswith("the work took less than the measured ceilings allow.") == beaten


def test_a_floor_that_another_mode_has_beaten_is_none(tmp_path: Path) -> None:
    fast = record("max-autotune", 0.05, 8.0, **BOUNDS, **cpu_clocks(0.05, 0.01))  # 40 of 50 ms
    slow = [record("eager", 0.4, 1.0, **BOUNDS), record("compile", 0.2, 2.0, **BOUNDS)]
    (before,) = _found(tmp_path / "before", *slow)
    (after,) = _found(tmp_path / "after", *slow, fast)
    assert before.floor_s == pytest.approx(0.05)
    assert after.floor_s is None
    assert [before.beaten, after.beaten] == [False, True]


def test_every_precision_has_its_own(tmp_path: Path) -> None:
    half: dict[str, Any] = {"dtype": "bf16", "baseline_dtype": "bf16"}
    both = [
        record(mode, speedup=speedup, **columns)
        for columns in ({}, half)
        for mode, speedup in (("eager", 1.0), ("compile", 2.0))
    ]
    told = waterfall.reading(derived(save(both, tmp_path)))
    assert told is not None
    assert told.index("From eager bf16 (") < told.index("From eager fp32 (")
