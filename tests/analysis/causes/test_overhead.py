"""Causes in the overhead of a call: worlds in which each is there, and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.causes import codes, of_last, profiled, rows_of
from tests.helpers.studies import cpu_clocks, cuda_clocks, record


def test_gradients_left_on_are_named_with_the_gain_of_the_same_mode_without(tmp_path: Path) -> None:
    rows = rows_of([record("inference_mode", speedup=1.5), record("eager", speedup=1.0)], tmp_path)
    (found,) = of_last(rows)
    assert found.code == "grad_left_on"
    assert "(inference_mode) the same call is 1.50× as fast" in found.sentence
    assert found.remedy == "Call the model under torch.inference_mode() (mode=inference_mode)."


@pytest.mark.parametrize(
    "columns",
    [{"phase": "train"}, {"grad": "no_grad"}, {"compile_mode": "default"}, {"dtype": "bf16"}],
)
def test_gradients_are_not_blamed_for(tmp_path: Path, columns: dict[str, Any]) -> None:
    rows = rows_of([record("inference_mode", speedup=1.5), record("eager", speedup=1.0)], tmp_path)
    assert "grad_left_on" not in codes(of_last(rows, **columns))


def test_gradients_are_not_blamed_where_the_intervals_meet(tmp_path: Path) -> None:
    records = [record("inference_mode", speedup=1.01, spread=0.1), record("eager", speedup=1.0)]
    assert of_last(rows_of(records, tmp_path)) == ()


def test_gradients_are_not_blamed_for_a_little(tmp_path: Path) -> None:
    same: dict[str, Any] = {"spread": 0.002}
    records = [record("inference_mode", speedup=1.02, **same), record("eager", speedup=1, **same)]
    assert of_last(rows_of(records, tmp_path)) == ()


def test_recording_nothing_for_a_backward_is_the_gain_of_its_grad_axis(tmp_path: Path) -> None:
    rows = rows_of([record("eager", speedup=1.0), record("inference_mode", speedup=1.25)], tmp_path)
    (found,) = of_last(rows)
    assert found.code == "no_autograd"
    assert found.share == pytest.approx(0.2, abs=0.01)
    assert "saves 20 % of the baseline's call" in found.sentence
    assert of_last(rows, speedup_ci_low=0.99) == ()
    assert of_last(rows, speedup_ci_low=1.02) == ()  # it may be less than is named


def _against_eager(
    mode: str, speedup: float, dispatch_s: float | None, **columns: Any
) -> list[Any]:
    """Inference_mode, as fast as its baseline, of whose 400 us 200 are dispatch; then `mode`."""
    latency_s = 400e-6 / speedup
    return [
        record("inference_mode", 400e-6, 1.0, ops_dispatched=40, **cpu_clocks(400e-6, 200e-6)),
        record(mode, latency_s, speedup, **(cpu_clocks(latency_s, dispatch_s) | columns)),
    ]


def test_less_dispatch_explains_a_gain(tmp_path: Path) -> None:
    profile = profiled(200e-6, ("aten::addmm", 4, 180e-6))
    records = _against_eager("compile", 2.0, 20e-6, ops_dispatched=10, **profile)
    found = of_last(rows_of(records, tmp_path))
    assert codes(found)[:2] == ["compiled_code", "less_overhead"]
    assert found[1].share == pytest.approx(0.45, abs=0.01)  # (200 - 20) of 400
    assert "(40 operators became 10)" in found[1].sentence
    assert ", by less overhead (40 operators became 10)" in found[0].sentence


def test_without_a_profile_launches_of_compiled_code_may_be_overhead(tmp_path: Path) -> None:
    found = of_last(rows_of(_against_eager("compile", 1.5, 20e-6), tmp_path))
    assert codes(found)[0] == "compiled_code"
    assert "less_overhead" not in codes(found)


def test_a_gain_by_less_work_is_not_one_by_less_dispatch(tmp_path: Path) -> None:
    records = _against_eager("compile", 1.5, 195e-6, generated_kernels=3)
    assert "less_overhead" not in codes(of_last(rows_of(records, tmp_path)))


def test_compiling_under_autocast_is_compared_with_autocast(tmp_path: Path) -> None:
    records = [
        record("inference_mode", speedup=1.25),
        record("amp", speedup=0.8),
        record("amp-compile", speedup=2.0),
    ]
    found = of_last(rows_of(records, tmp_path))
    assert codes(found)[0] == "compiled_code"
    assert "saves 75 % of the baseline's call beyond what amp saves" in found[0].sentence
    assert "compiled_code" not in codes(of_last(rows_of(records[:1] + records[2:], tmp_path / "x")))


def test_more_dispatch_explains_a_loss(tmp_path: Path) -> None:
    found = of_last(rows_of(_against_eager("compile", 0.5, 600e-6), tmp_path))
    assert codes(found)[0] == "more_overhead"
    assert "cache lookup (guards)" in found[0].sentence
    assert "add 400 µs to a call" in found[0].sentence


def test_what_is_no_kernel_is_not_overhead_beside_other_programs(tmp_path: Path) -> None:
    eager = profiled(400e-6, ("aten::addmm", 4, 380e-6), overhead=1.0)
    amp = profiled(800e-6, ("aten::addmm", 4, 600e-6), overhead=1.0)
    records = [
        record("inference_mode", 400e-6, 1.0, **(cpu_clocks(400e-6, 20e-6) | eager)),
        record("amp", 800e-6, 0.5, **(cpu_clocks(800e-6, None) | amp)),
    ]
    rows = rows_of(records, tmp_path)
    assert "more_overhead" in codes(of_last(rows))
    assert "more_overhead" not in codes(of_last(rows, flags=["contended"]))


@pytest.mark.parametrize("compiled", ["compile", "amp"])
def test_added_overhead_and_saved_work_make_up_the_difference(
    tmp_path: Path, compiled: str
) -> None:
    """Of a call 100 µs longer whose kernels take 40 µs less, 140 µs are overhead.

    The clocks have 20 µs of dispatch in eager, the profile 60 µs beside its kernels.
    """
    eager = profiled(400e-6, ("aten::addmm", 4, 340e-6), overhead=1.0)
    longer = profiled(500e-6, ("aten::addmm", 4, 300e-6), overhead=1.0)
    dispatch_s = 180e-6 if compiled == "compile" else None
    records = [
        record("inference_mode", 400e-6, 1.0, **(cpu_clocks(400e-6, 20e-6) | eager)),
        record(compiled, 500e-6, 0.8, **(cpu_clocks(500e-6, dispatch_s) | longer)),
    ]
    found = {one.code: one for one in of_last(rows_of(records, tmp_path))}
    assert "add 140 µs to a call" in found["more_overhead"].sentence


def test_the_parts_of_a_compiled_calls_overhead_have_their_times(tmp_path: Path) -> None:
    profile = profiled(900e-6, ("aten::addmm", 1, 100e-6))
    rows = rows_of(_against_eager("compile", 0.5, 600e-6, **profile), tmp_path)
    found = of_last(rows, guards_s=30e-6, compiled_wrapper_s=20e-6)
    assert "(guards, 30.0 µs), Python around the compiled code (20.0 µs)" in found[0].sentence


def test_a_loss_by_more_work_is_not_one_by_dispatch(tmp_path: Path) -> None:
    found = of_last(rows_of(_against_eager("compile", 0.5, 200e-6), tmp_path))
    assert "more_overhead" not in codes(found)


def test_a_gain_of_compiling_is_the_one_over_the_same_mode_without(tmp_path: Path) -> None:
    records = [record("inference_mode", speedup=1.25), record("compile", speedup=2.5)]
    rows = rows_of(records, tmp_path)
    found = of_last(rows)
    assert codes(found)[0] == "compiled_code"
    assert found[0].sentence == (  # 1/1.25 - 1/2.5
        "compiled code saves 40 % of the baseline's call beyond what inference_mode saves."
    )
    assert "compiled_code" not in codes(of_last(rows, speedup_ci_low=1.2))


def test_a_call_bound_by_dispatch_names_its_operators(tmp_path: Path) -> None:
    columns = cpu_clocks(100e-6, 80e-6) | {"ops_dispatched": 42}
    rows = rows_of([record("no_grad", 100e-6, 1.0, spread=0.002, **columns)], tmp_path)
    (found,) = of_last(rows)
    assert found.code == "bound_by_overhead"
    assert found.sentence.startswith("dispatch takes 80.0 % [")
    assert "42 operators" in found.sentence
    assert found.remedy.startswith("Compile it")


@pytest.mark.parametrize(("dispatch_s", "speedup"), [(20e-6, 1.0), (50e-6, 1.0), (80e-6, 1.5)])
def test_a_call_that_is_not_or_gains_is_not_bound_by_dispatch(
    tmp_path: Path, dispatch_s: float, speedup: float
) -> None:
    columns = cpu_clocks(100e-6, dispatch_s)
    found = of_last(rows_of([record("no_grad", 100e-6, speedup, **columns)], tmp_path))
    assert "bound_by_overhead" not in codes(found)


def test_a_busy_host_of_a_gpu_is_told_to_capture_graphs(tmp_path: Path) -> None:
    clocks = cuda_clocks(100e-6, 40e-6)
    (found,) = of_last(rows_of([record("no_grad", 100e-6, 1.0, **clocks)], tmp_path))
    assert found.code == "bound_by_overhead"
    assert "the host is busy 2.500× [" in found.sentence
    assert "mode=reduce-overhead" in found.remedy


@pytest.mark.parametrize(("captured", "is_told"), [(0.8, False), (1.2, True)])
def test_graphs_that_the_study_has_measured_as_slower_are_not_advised(
    tmp_path: Path, captured: float, is_told: bool
) -> None:
    clocks = cuda_clocks(100e-6, 40e-6)
    records = [
        record("cuda-graph", 100e-6 / captured, captured, spread=0.002, **clocks),
        record("no_grad", 100e-6, 1.0, spread=0.002, **clocks),
    ]
    found = {one.code: one for one in of_last(rows_of(records, tmp_path))}
    assert ("mode=reduce-overhead" in found["bound_by_overhead"].remedy) is is_told


def test_guards_that_remain_come_after_what_explains_a_gain(tmp_path: Path) -> None:
    columns = profiled(200e-6, ("aten::addmm", 1, 50e-6), guards_s=80e-6, compiled_wrapper_s=20e-6)
    records = [record("inference_mode", speedup=1.25), record("compile", speedup=1.5, **columns)]
    found = of_last(rows_of(records, tmp_path))
    assert codes(found)[0] == "no_autograd"
    assert codes(found)[-2:] == ["first_call", "guards"]


def test_options_that_drop_guards_are_printed_as_python(tmp_path: Path) -> None:
    columns = profiled(200e-6, ("aten::addmm", 1, 50e-6), guards_s=30e-6, compiled_wrapper_s=20e-6)
    found = of_last(rows_of([record("compile", speedup=0.8, **columns)], tmp_path))
    assert "{'guard_filter_fn': torch" in found[0].remedy
