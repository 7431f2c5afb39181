"""Worlds of `analysis.causes.kernels`."""

from __future__ import annotations

from typing import Any

from modescope.bench.stats.estimates import Estimate
from tests.helpers.causes import World, alone, first, kernels, last, profiled
from tests.helpers.rows import ends
from tests.helpers.studies import cpu_clocks, record

FUSED = ("x_cpp_fused_gelu_0", 3, 10e-6)
PRODUCT = ("aten::addmm", 4, 100e-6)
FLOOR: dict[str, Any] = {
    "least_bytes": 900_000, "flops": 1, "ceiling_bytes_per_s": 1e10, "ceiling_flops_per_s": 1e12,
}  # fmt: skip


def _split(mode: str, speedup: float, profile: dict[str, Any]) -> Any:
    """A row with 20 µs of dispatch; its baseline takes 400 µs."""
    latency_s = 400e-6 / speedup
    return record(mode, latency_s, speedup, **(cpu_clocks(latency_s, 20e-6) | profile))


EAGER = _split("inference_mode", 1.0, profiled(400e-6, PRODUCT, ("aten::gelu", 3, 260e-6)))

WORLDS = {
    "subnormal_numbers": World(
        [record("compile", speedup=63.0, subnormal='{"power": 1.0, "results of aten.sqrt": 0.5}')],
        ["power (100 %)", "aten.sqrt (50 %)"],
        silent={
            "only ordinary numbers": last(subnormal=None),
            "on a GPU": last(device="cuda"),
        },
    ),
    "unchanged_kernels": World(
        [
            record("compile", speedup=1.0, spread=0.002,
                   **profiled(100e-6, ("aten::addmm", 4, 80e-6), FUSED))
        ],
        ["80 % of a call", "aten::addmm 80 %", "1.25×"],
        share=0.8,
        silent={
            "kernels of the user's own": last(kernel_names='["aten::addmm"]'),
            "less than half of a call": last(
                heaviest_kernels=kernels(("aten::addmm", 4, 49e-6), FUSED)
            ),
            "all kernels are generated": last(heaviest_kernels=kernels(FUSED)),
            "bound by overhead": last(bound_by="overhead"),
            "functions in eager": last(eager_functions='["Net.forward"]'),
            "calls in eager": last(gave_up_at_call=4),
            "another precision": last(dtype="bf16"),
            "a profile that contradicts the clocks": last(flags=["split_disagrees"]),
            "the interval admits a gain of a tenth": last(speedup=ends(high=1.11)),
        },
        still={
            "half of a call": last(heaviest_kernels=kernels(("aten::addmm", 4, 51e-6), FUSED)),
        },
    ),
    "fused_kernels": World(
        [
            EAGER,
            _split("compile", 2.0, profiled(200e-6, PRODUCT, ("x_cpp_fused_gelu_0", 1, 60e-6))
                   | {"generated_kernels": 1}),
        ],
        ["1 of them generated", "50 %", "7 operators became 5"],
        share=0.5,
        silent={
            "no kernel is generated": last(generated_kernels=0),
            "not faster by the interval": last(speedup=ends(low=0.99)),
            "the interval admits as much work as in eager": first(
                dispatch_share=Estimate(0.55, 0.54, 0.56)
            ),
            "no plain eager": alone,
        },
        still={
            "the interval excludes as much work": first(
                dispatch_share=Estimate(0.45, 0.44, 0.46)
            ),
        },
    ),
    "slower_kernels": World(
        [
            EAGER,
            _split("compile", 0.5, profiled(800e-6, PRODUCT, ("x_cpp_fused_gelu_0", 3, 660e-6))),
        ],
        ["660 µs", "260 µs", "x_cpp_fused_gelu_0 82 %"],
        share=0.5,
        silent={
            "not slower by the interval": last(speedup=ends(high=1.01)),
            "new kernels as fast": last(
                heaviest_kernels=kernels(PRODUCT, ("x_cpp_fused_gelu_0", 3, 285e-6))
            ),
            "the interval admits as much work as in eager": last(kernels_s=300e-6),
            "no plain eager": alone,
        },
        still={
            "new kernels slower by a tenth": last(
                heaviest_kernels=kernels(PRODUCT, ("x_cpp_fused_gelu_0", 3, 287e-6))
            ),
        },
    ),
    "near_floor": World(
        [record("no_grad", 100e-6, 1.0, **cpu_clocks(100e-6, 1e-6), **FLOOR)],
        ["91 %", "fp32", "1.11×"],
        share=0.9,
        silent={
            "less than 0.7 of the longest work": last(latency_paired_s=ends(high=131e-6)),
            "the floor is beaten": last(flags=["above_ceiling"]),
            "bound by overhead": last(bound_by="overhead"),
            "the interval admits a gain of a tenth": last(speedup=ends(high=1.11)),
        },
        still={"0.7 of the longest work": last(latency_paired_s=ends(high=128e-6))},
    ),
    "threads": World(
        [
            record("compile", 200e-6, 1.25, spread=0.002, threads=2, case_id="other"),
            record("compile", 400e-6, 1.25, spread=0.002),
        ],
        ["1 thread", "400.0 µs [399.9, 400.1]", "2 threads", "200.0 µs [199.9, 200.1]"],
        share=0.5,
        silent={
            "not faster by a tenth, by the intervals":
                first(latency_at_full_pace_s=ends(high=370e-6)),
            "the same number of threads": first(threads=1),
            "other options": first(mode="no_grad"),
            "no interval": last(latency_s=ends(low=None), latency_at_full_pace_s=ends(low=None)),
            "beside other programs": last(flags=["contended"]),
            "the others ran beside other programs": first(flags=["contended"]),
            "not measured": alone,
        },
        still={
            "faster by a tenth, by the intervals": first(latency_at_full_pace_s=ends(high=360e-6))
        },
    ),
}  # fmt: skip
