"""Worlds of `analysis.causes.machine`."""

from __future__ import annotations

from typing import Any

from tests.helpers.causes import World, alone, first, last
from tests.helpers.studies import cpu_clocks, record

NEAR_THE_RATE: dict[str, Any] = {
    "least_bytes": 1, "flops": 80_000, "ceiling_bytes_per_s": 1e12, "ceiling_flops_per_s": 1e9,
}  # fmt: skip

WORLDS = {
    "threads": World(
        [
            record("compile", 200e-6, 1.25, spread=0.002, threads=2, case_id="other"),
            record("compile", 400e-6, 1.25, spread=0.002),
        ],
        "with 1 thread a call takes 400.0 µs [399.9, 400.1], with 2 threads 200.0 µs [199.9, "
        "200.1] (both at the machine's full pace).",
        share=0.5,
        silent={
            "not faster by a tenth, by the intervals": first(latency_at_full_pace_ci_high_s=370e-6),
            "the same number of threads": first(threads=1),
            "other options": first(mode="no_grad"),
            "no interval": last(latency_ci_low_s=None, latency_at_full_pace_ci_low_s=None),
            "beside other programs": last(flags=["contended"]),
            "the others ran beside other programs": first(flags=["contended"]),
            "not measured": alone,
        },
        still={"faster by a tenth, by the intervals": first(latency_at_full_pace_ci_high_s=360e-6)},
    ),
    "idle_cores": World(
        [record("no_grad", 100e-6, 1.0, **cpu_clocks(100e-6, 1e-6), **NEAR_THE_RATE)],
        "its arithmetic runs at 81 % of the highest rate measured, on 1 of 2 cores.",
        silent={
            "all cores are busy": last(threads=2),
            "below half of that rate": last(roofline_fraction=0.49),
            "bound by reading memory": last(floor_bound="memory"),
            "bound by overhead": last(bound_by="overhead"),
            "the cores are unknown": last(cpu_cores=None),
            "the interval admits a gain of a tenth": last(speedup_ci_high=1.11),
        },
        still={
            "half of that rate": last(roofline_fraction=0.51),
            "the interval excludes a gain of a tenth": last(speedup_ci_high=1.09),
        },
    ),
    "torch_warning": World(
        [record("no_grad", torch_warnings='["TensorFloat32 is not enabled.  Consider it."]')],
        "torch warned: TensorFloat32 is not enabled. Consider it.",
        silent={
            "no warning": last(torch_warnings="[]"),
            "not recorded": last(torch_warnings=None),
        },
    ),
}
