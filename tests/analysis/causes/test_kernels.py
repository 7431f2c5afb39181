"""Causes in kernels: worlds in which each is there, and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.causes import evidence
from modescope.analysis.causes.types import Case
from tests.helpers.causes import codes, of_last, profiled, rows_of
from tests.helpers.studies import cpu_clocks, record

ADDMM = ("aten::addmm", 4, 80e-6)
GENERATED = ("graph_0_cpp_fused_gelu_0", 3, 10e-6)


def test_kernels_that_remain_are_named_with_their_share(tmp_path: Path) -> None:
    columns = profiled(100e-6, ADDMM, GENERATED)
    rows = rows_of([record("compile", speedup=1.0, spread=0.002, **columns)], tmp_path)
    found = of_last(rows)
    assert codes(found)[0] == "unchanged_kernels"
    assert found[0].sentence == (
        "80 % of a call is kernels that it does not change (aten::addmm 80 %); without the rest it "
        "would reach 1.25×."
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"speedup_ci_high": 1.3},  # it may be faster by more
        {"speedup_ci_high": 0.8},  # slower, which kernels that remain cannot explain
        {"dtype": "bf16"},  # the kernels compute something else
        {"bound_by": "overhead"},
        {"eager_functions": '["Net.forward"]'},  # the graph break leaves them
        {"flags": ["split_disagrees"]},
        {"heaviest_kernels": None},
    ],
)
def test_kernels_that_remain_are_not_named(tmp_path: Path, columns: dict[str, Any]) -> None:
    profile = profiled(100e-6, ADDMM, GENERATED)
    rows = rows_of([record("compile", speedup=1.0, spread=0.002, **profile)], tmp_path)
    assert "unchanged_kernels" not in codes(of_last(rows, **columns))


def test_generated_kernels_do_not_remain(tmp_path: Path) -> None:
    columns = profiled(100e-6, ("aten::addmm", 4, 10e-6), ("graph_0_cpp_fused_gelu_0", 3, 80e-6))
    rows = rows_of([record("compile", speedup=1.0, spread=0.002, **columns)], tmp_path)
    assert "unchanged_kernels" not in codes(of_last(rows))


@pytest.mark.parametrize(
    ("instructions", "remedy"),
    [
        ("avx2 avx512_bf16", "Try a lower precision (dtype=bf16)."),
        ("avx2", "Only less work, more threads or a faster device help."),
    ],
)
def test_the_remedy_fits_the_cpu(tmp_path: Path, instructions: str, remedy: str) -> None:
    profile = profiled(100e-6, ADDMM, cpu_instructions=instructions)
    found = of_last(rows_of([record("compile", speedup=1.0, **profile)], tmp_path))
    assert found[0].remedy == remedy


def test_threads_are_no_remedy_on_a_gpu(tmp_path: Path) -> None:
    last = record("compile", speedup=1.0, **profiled(100e-6, ADDMM))
    rows = rows_of([record("amp", speedup=0.6), last], tmp_path)
    on_gpu = [{**row, "device": "cuda", "device_share": 0.9} for row in rows]
    assert evidence.less_work(Case(on_gpu[1], siblings=(on_gpu[0],))) == evidence.FASTER_DEVICE


@pytest.mark.parametrize(
    ("speedup", "remedy"),
    [
        (2.0, "Lower the precision: amp bf16 is 2.00× as fast."),
        (0.6, "Only less work, more threads or a faster device help."),
    ],
)
def test_the_remedy_follows_a_lower_precision_that_was_measured(
    tmp_path: Path, speedup: float, remedy: str
) -> None:
    profile = profiled(100e-6, ADDMM, cpu_instructions="avx2 avx512_bf16")
    last = record("compile", speedup=1.0, **profile)
    found = of_last(rows_of([record("amp", speedup=speedup), last], tmp_path))
    assert found[0].remedy == remedy


def _work(mode: str, speedup: float, dispatch_s: float, profile: dict[str, Any]) -> Any:
    latency_s = 400e-6 / speedup
    clocks = cpu_clocks(latency_s, dispatch_s)
    return record(mode, latency_s, speedup, **(clocks | profile))


EAGER = profiled(400e-6, ("aten::addmm", 4, 100e-6), ("aten::gelu", 3, 280e-6))


def test_fewer_kernels_explain_a_gain(tmp_path: Path) -> None:
    fused = profiled(200e-6, ("aten::addmm", 4, 100e-6), ("x_cpp_fused_gelu_0", 1, 60e-6))
    records = [
        _work("inference_mode", 1.0, 20e-6, EAGER),
        _work("compile", 2.0, 20e-6, fused | {"generated_kernels": 1}),
    ]
    found = of_last(rows_of(records, tmp_path))
    assert codes(found)[:2] == ["fused_kernels", "compiled_code"]  # overhead became more
    assert "7 kernels became 5" in found[0].sentence
    assert found[1].sentence.endswith(", by cheaper kernels (7 kernels became 5).")
    assert "less_overhead" not in codes(found)


def test_a_gain_without_generated_kernels_is_not_one_of_fusion(tmp_path: Path) -> None:
    alone = profiled(200e-6, ("aten::addmm", 4, 160e-6)) | {"generated_kernels": 0}
    records = [_work("inference_mode", 1.0, 20e-6, EAGER), _work("compile", 2.0, 20e-6, alone)]
    assert "fused_kernels" not in codes(of_last(rows_of(records, tmp_path)))


@pytest.mark.parametrize(("new_s", "named"), [(660e-6, True), (260e-6, False)])
def test_generated_kernels_explain_a_loss_if_they_take_longer(
    tmp_path: Path, new_s: float, named: bool
) -> None:
    slow = profiled(800e-6, ("aten::addmm", 4, 100e-6), ("x_cpp_fused_gelu_0", 3, new_s))
    records = [_work("inference_mode", 1.0, 20e-6, EAGER), _work("compile", 0.5, 20e-6, slow)]
    found = of_last(rows_of(records, tmp_path))
    assert ("slower_kernels" in codes(found)) is named
    assert not named or "take 660 µs, and the eager kernels that they replace 280 µs" in (
        found[0].sentence
    )


FLOOR: dict[str, Any] = {
    "least_bytes": 900_000, "flops": 1, "ceiling_bytes_per_s": 1e10, "ceiling_flops_per_s": 1e12,
}  # fmt: skip


@pytest.mark.parametrize(
    ("latency_s", "speedup", "named"),
    [(100e-6, 1.0, True), (300e-6, 1.0, False), (100e-6, 2.0, False), (80e-6, 1.0, False)],
)
def test_work_near_its_floor_has_little_to_gain(
    tmp_path: Path, latency_s: float, speedup: float, named: bool
) -> None:
    """The floor is 90 us; 80 us beat it, so that it is invalid."""
    clocks = cpu_clocks(latency_s, 1e-6)
    found = of_last(rows_of([record("no_grad", latency_s, speedup, **clocks, **FLOOR)], tmp_path))
    assert ("near_floor" in codes(found)) is named
    assert not named or "at the bandwidth measured here, takes 91 %" in found[0].sentence
