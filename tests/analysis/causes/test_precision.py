"""Causes in precision: worlds in which each is there, and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.causes import Kernel, codes, of_last, profiled, rows_of
from tests.helpers.studies import cuda_clocks, record

NATIVE, NONE = "avx2 avx512_bf16", "avx2"


def _study(
    speedup: float, fp32: Kernel, *bf16: Kernel, span_s: float = 1e-3, **columns: Any
) -> list[Any]:
    """Inference_mode in fp32, then amp in bf16."""
    same: dict[str, Any] = {"cpu_instructions": NATIVE}
    return [
        record("inference_mode", 400e-6, 1.0, **profiled(400e-6, fp32), **same),
        record("amp", 400e-6 / speedup, speedup, **(profiled(span_s, *bf16) | same | columns)),
    ]


def test_casts_of_autocast_have_a_share_and_a_count(tmp_path: Path) -> None:
    study = _study(0.4, ("aten::mm", 4, 300e-6), ("aten::_to_copy", 24, 820e-6))
    (found,) = of_last(rows_of(study, tmp_path))
    assert found.code == "casts"
    assert found.sentence == "82 % of a call is casts between fp32 and bf16 (24 casts per call)."
    assert "dtype=bf16" in found.remedy


@pytest.mark.parametrize(
    "name",
    ["graph_1_cpp_fused__to_copy_t_1", "bfloat16_copy_kernel_cuda", "direct_copy_kernel_cuda"],
)
def test_casts_have_other_names_in_compiled_code_and_on_a_gpu(tmp_path: Path, name: str) -> None:
    study = _study(0.4, ("aten::mm", 4, 300e-6), (name, 24, 820e-6))
    assert "casts" in codes(of_last(rows_of(study, tmp_path)))


@pytest.mark.parametrize(
    ("fp32", "bf16"),
    [
        (("aten::mm", 4, 300e-6), ("aten::_to_copy", 24, 50e-6)),  # too few
        (("aten::_to_copy", 4, 300e-6), ("aten::_to_copy", 4, 300e-6)),  # in fp32, too
        (("aten::mm", 4, 300e-6), ("graph_1_cpp_fused__to_copy_gelu_1", 4, 800e-6)),  # not alone
    ],
)
def test_casts_are_not_named(tmp_path: Path, fp32: Kernel, bf16: Kernel) -> None:
    assert "casts" not in codes(of_last(rows_of(_study(0.4, fp32, bf16), tmp_path)))


def test_copies_of_a_gpu_are_no_casts_if_plain_eager_is_unknown(tmp_path: Path) -> None:
    study = _study(0.4, ("aten::mm", 4, 300e-6), ("direct_copy_kernel_cuda", 24, 820e-6))
    assert "casts" not in codes(of_last(rows_of(study[1:], tmp_path)))


SLOW = ("aten::mm", 4, 900e-6)
FAST = ("aten::mm", 4, 100e-6)
FP32 = ("aten::mm", 4, 300e-6)


def test_a_cpu_without_bf16_is_named_where_bf16_is_slower(tmp_path: Path) -> None:
    study = _study(0.4, FP32, SLOW, cpu_instructions=NONE)
    (found,) = of_last(rows_of(study, tmp_path))
    assert found.code == "no_native_dtype"
    assert found.sentence == (
        "this CPU has no bf16 instructions, and matrix products (aten::mm) take 900 µs in bf16 and "
        "300 µs in fp32."
    )


def test_the_measured_rates_are_the_figure_where_they_are_known(tmp_path: Path) -> None:
    rows = rows_of(_study(0.4, FP32, SLOW, cpu_instructions=NONE), tmp_path)
    rows[0] = {**rows[0], "ceiling_flops_per_s": 1e11}
    (found,) = of_last(rows, ceiling_flops_per_s=1.5e10)
    assert "bf16 products run at 0.15 of fp32's rate" in found.sentence


@pytest.mark.parametrize(
    ("speedup", "kernel", "instructions", "expected"),
    [
        (0.4, SLOW, NATIVE, ["slower_products"]),
        (0.4, SLOW, None, ["slower_products"]),  # what the CPU has is unknown
        (0.4, FP32, NONE, []),  # the products are as fast
        (1.0, SLOW, NONE, []),  # not shown to be slower
        (2.0, FAST, NATIVE, ["faster_products"]),
        (2.0, FP32, NATIVE, []),
        (0.4, FAST, NATIVE, []),
    ],
)
def test_products_explain_what_they_can(
    tmp_path: Path, speedup: float, kernel: Kernel, instructions: str | None, expected: list[str]
) -> None:
    study = _study(speedup, FP32, kernel, cpu_instructions=instructions)
    found = codes(of_last(rows_of(study, tmp_path)))
    assert [code for code in found if code.endswith(("products", "dtype"))] == expected


def test_products_of_a_gpu_have_another_kernel_in_each_precision(tmp_path: Path) -> None:
    fp32 = ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3", 4, 380e-6)
    bf16 = ("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_bias_TNT", 4, 40e-6)
    other = ("void at::native::vectorized_elementwise_kernel<4>", 3, 10e-6)
    records = [
        record(
            "inference_mode",
            400e-6,
            1.0,
            **cuda_clocks(50e-6, 395e-6),
            **profiled(400e-6, fp32, other),
        ),
        record("amp", 60e-6, 6.5, **cuda_clocks(50e-6, 55e-6), **profiled(60e-6, bf16, other)),
    ]
    (found, *_) = of_last(rows_of(records, tmp_path))
    assert found.code == "faster_products"
    assert "take 40.0 µs in bf16 and 380 µs in fp32" in found.sentence


def test_a_profile_at_half_the_pace_is_compared_at_the_same_pace(tmp_path: Path) -> None:
    rows = rows_of(_study(0.9, FP32, ("aten::mm", 4, 600e-6)), tmp_path)
    assert "slower_products" in codes(of_last(rows))
    at_half = of_last(rows, profiled_pace_s=2 * rows[0]["profiled_pace_s"])
    assert "slower_products" not in codes(at_half)


def test_times_are_scaled_to_the_same_pace(tmp_path: Path) -> None:
    rows = rows_of(_study(0.4, FP32, SLOW), tmp_path)
    slower = {"profiled_pace_s": 1.5 * rows[0]["profiled_pace_s"]}
    assert "900 µs in bf16 and 300 µs in fp32." in of_last(rows)[0].sentence
    assert "600 µs in bf16 and 300 µs in fp32." in of_last(rows, **slower)[0].sentence


@pytest.mark.parametrize(
    ("rate", "remedy"),
    [
        (
            0.5e11,
            "Stay with fp32: the highest rate measured for bf16 products here is 0.50 of fp32",
        ),
        (2e11, "Stay with fp32 at this size, or try a larger one."),
        (None, "Stay with fp32 at this size, or try a larger one."),
    ],
)
def test_a_larger_size_is_advised_where_products_can_be_faster(
    tmp_path: Path, rate: float | None, remedy: str
) -> None:
    rows = rows_of(_study(0.4, FP32, SLOW, cpu_instructions=NATIVE), tmp_path)
    rows[0] = {**rows[0], "ceiling_flops_per_s": 1e11}
    assert of_last(rows, ceiling_flops_per_s=rate)[0].remedy.startswith(remedy)


def _on_gpu(name: str, device_s: float = 90e-6) -> Any:
    clocks = cuda_clocks(20e-6, device_s)
    profile = profiled(100e-6, (name, 4, 60e-6), ("other", 1, 30e-6))
    return record("no_grad", 100e-6, 1.0, **(clocks | profile))


@pytest.mark.parametrize(
    ("name", "device_s", "named"),
    [
        ("cutlass_80_simt_sgemm_128x64_8x5_tn_align1", 90e-6, True),
        ("cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4", 90e-6, False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64", 90e-6, False),
        ("cutlass_80_simt_sgemm_128x64_8x5_tn_align1", 10e-6, False),  # the host is the limit
    ],
)
def test_products_without_tensor_cores(
    tmp_path: Path, name: str, device_s: float, named: bool
) -> None:
    found = codes(of_last(rows_of([_on_gpu(name, device_s)], tmp_path)))
    assert ("no_tensor_cores" in found) is named


@pytest.mark.parametrize(("capability", "named"), [("7.5", True), ("8.0", False), (None, False)])
def test_a_gpu_without_bf16_is_named_by_its_compute_capability(
    tmp_path: Path, capability: str | None, named: bool
) -> None:
    gpu = {"device": "cuda"}
    records = [
        record("inference_mode", 400e-6, 1.0, **(profiled(400e-6, FP32) | gpu)),
        record("amp", 1e-3, 0.4, **(profiled(1e-3, SLOW) | gpu)),
    ]
    found = codes(of_last(rows_of(records, tmp_path), compute_capability=capability))
    assert ("no_native_dtype" in found) is named
