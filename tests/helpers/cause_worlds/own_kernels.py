"""Worlds of `analysis.causes.own_kernels`: an implementation `mine` with the operator my::norm."""

from __future__ import annotations

from typing import Any

from modescope.bench.stats.estimates import Estimate
from tests.helpers.causes import World, alone, first, last, profiled
from tests.helpers.rows import ends
from tests.helpers.studies import cpu_clocks, record

MINE: dict[str, Any] = {
    "case_id": "mine", "axes": '{"kernels":"mine"}', "kernel_use": "called",
    "kernel_names": '["my::norm"]',
}  # fmt: skip
NORM = ("my::norm", 1, 40e-6)


def _row(mode: str, speedup: float, **columns: Any) -> Any:
    """A row with 20 µs of dispatch; its baseline takes 400 µs."""
    latency_s = 400e-6 / speedup
    return record(mode, latency_s, speedup, **(cpu_clocks(latency_s, 20e-6) | columns))


WORLDS = {
    "called_kernels": World(
        [
            record("compile", speedup=2.0, bytes_accessed=2 * 2**20),
            record("compile", speedup=1.25, bytes_accessed=3 * 2**20, **MINE,
                   **profiled(100e-6, NORM, ("x_cpp_fused_mul_norm_0", 1, 50e-6))),
        ],
        ["my::norm", "3.00 MiB", "compile", "2.00 MiB"],
        share=0.4,
        silent={
            "in eager": last(compile_mode="none"),
            "not run": last(kernel_use="absent"),
            "within compiled code": last(kernel_use="inlined"),
        },
        still={"nothing to compare with": alone},
    ),
    "broken_by_kernels": World(
        [record("compile", speedup=0.8, **(MINE | {"kernel_use": "broke"}))],
        ["my::norm"],
        silent={"called in the code": last(kernel_use="called")},
    ),
    "faster_own_kernels": World(
        [_row("inference_mode", 1.0), _row("inference_mode", 2.0, **MINE)],
        ["my::norm", "50 %"],
        share=0.5,
        silent={
            "compiled": last(compile_mode="default"),
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
    "slower_own_kernels": World(
        [_row("inference_mode", 1.0), _row("inference_mode", 0.5, **MINE)],
        ["my::norm", "50 %"],
        share=0.5,
        silent={
            "compiled": last(compile_mode="default"),
            "not slower by the interval": last(speedup=ends(high=1.01)),
            "no plain eager": alone,
        },
        still={"a little less slow": last(speedup=ends(high=0.6))},
    ),
}  # fmt: skip
