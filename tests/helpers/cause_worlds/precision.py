"""Worlds of `analysis.causes.precision`."""

from __future__ import annotations

from typing import Any

from tests.helpers.causes import Kernel, World, alone, kernels, last, profiled
from tests.helpers.rows import ends
from tests.helpers.studies import cuda_clocks, record

NATIVE, NONE = "avx2 avx512_bf16", "avx2"
FP32 = ("aten::mm", 4, 300e-6)
SIMT = "cutlass_80_simt_sgemm_128x64_tn_align1"


def _study(speedup: float, *bf16: Kernel, instructions: str = NATIVE) -> list[Any]:
    """Rows of inference_mode in fp32, with products of 300 µs, and of amp with kernels `bf16`."""
    span_s = 400e-6 / speedup
    same: dict[str, Any] = {"cpu_instructions": instructions}
    return [
        record("inference_mode", 400e-6, 1.0, **profiled(400e-6, FP32), **same),
        record("amp", span_s, speedup, **profiled(span_s, *bf16), **same),
    ]


def _product(seconds: float, count: int = 4) -> str:
    return kernels(("aten::mm", count, seconds))


WORLDS = {
    "casts": World(
        _study(0.4, ("aten::mm", 4, 150e-6), ("aten::_to_copy", 24, 820e-6)),
        ["82 %", "fp32 and bf16", "24 casts"],
        share=0.82,
        silent={
            "no autocast": last(autocast=False),
            "less than a tenth of a call": last(
                heaviest_kernels=kernels(("aten::_to_copy", 24, 99e-6))
            ),
            "a kernel that casts and computes": last(
                heaviest_kernels=kernels(("graph_1_cpp_fused__to_copy_gelu_1", 24, 820e-6))
            ),
        },
        still={
            "a tenth of a call": last(heaviest_kernels=kernels(("aten::_to_copy", 24, 101e-6)))
        },
    ),
    "no_native_dtype": World(
        _study(0.4, ("aten::mm", 4, 900e-6), instructions=NONE),
        ["CPU", "aten::mm", "900 µs in bf16", "300 µs in fp32"],
        share=0.6,
        silent={
            "a CPU with them": last(cpu_instructions=NATIVE),
            "unknown": last(cpu_instructions=None),
            "products nearly as fast": last(heaviest_kernels=_product(374e-6)),
            "not slower by the interval": last(speedup=ends(high=1.01)),
            "a dtype that needs none": last(dtype="fp32"),
        },
        still={"products slower by a quarter": last(heaviest_kernels=_product(376e-6))},
    ),
    "slower_products": World(
        _study(0.4, ("aten::mm", 4, 900e-6)),
        ["aten::mm", "900 µs in bf16", "300 µs in fp32"],
        share=0.6,
        silent={
            "a CPU without bf16": last(cpu_instructions=NONE),
            "products nearly as fast": last(heaviest_kernels=_product(374e-6)),
            "another number of products": last(heaviest_kernels=_product(900e-6, 12)),
            "not slower by the interval": last(speedup=ends(high=1.01)),
            "no plain eager": alone,
        },
        still={"products slower by a quarter": last(heaviest_kernels=_product(376e-6))},
    ),
    "faster_products": World(
        _study(2.0, ("aten::mm", 4, 100e-6)),
        ["aten::mm", "100 µs in bf16", "300 µs in fp32"],
        share=0.5,
        silent={
            "products nearly as fast": last(heaviest_kernels=_product(241e-6)),
            "another number of products": last(heaviest_kernels=_product(100e-6, 2)),
            "not faster by the interval": last(speedup=ends(low=0.99)),
            "no plain eager": alone,
        },
        still={"products faster by a fifth": last(heaviest_kernels=_product(239e-6))},
    ),
    "no_tensor_cores": World(
        [
            record("no_grad", 100e-6, 1.0, **cuda_clocks(20e-6, 90e-6),
                   **profiled(100e-6, (SIMT, 4, 60e-6), ("other", 1, 30e-6)))
        ],
        ["67 %", SIMT],
        share=0.6,
        silent={
            "products in tensor cores": last(
                heaviest_kernels=kernels(("cutlass_80_tensorop_s1688gemm_128x64_tn", 4, 60e-6))
            ),
            "products in tf32": last(
                heaviest_kernels=kernels(("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", 4, 60e-6))
            ),
            "the host is the limit": last(bound_by="overhead"),
            "less than three tenths": last(heaviest_kernels=kernels((SIMT, 4, 26e-6))),
        },
        still={"three tenths": last(heaviest_kernels=kernels((SIMT, 4, 28e-6)))},
    ),
}  # fmt: skip
