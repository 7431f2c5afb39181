"""Worlds of `analysis.causes.steps`: calls whose steps were measured one by one."""

from __future__ import annotations

from typing import Any

from modescope.bench.records.results import Record
from modescope.bench.stats.estimates import Estimate
from tests.helpers.causes import World, last
from tests.helpers.rows import ends
from tests.helpers.studies import record, stepped

FAST = {"eager": 100e-6, "autograd": 80e-6, "python": 75e-6, "code": 30e-6, "entry": 60e-6,
        "guards": 64e-6, "again": 63e-6, "keep_tensor_guards": 61e-6}  # fmt: skip
SLOW = {**FAST, "entry": 140e-6, "guards": 160e-6, "again": 158e-6, "keep_tensor_guards": 100e-6}
EVEN = {**FAST, "entry": 96e-6, "guards": 100e-6, "again": 101e-6}


def _of(latencies_s: dict[str, float], **columns: Any) -> Record:
    mode_s = latencies_s["guards"]
    steps = {**stepped(**latencies_s), **columns}
    return record("compile", mode_s, latencies_s["eager"] / mode_s, **steps)


WORLDS = {
    "measured_gain": World(
        [_of(FAST)],
        ["eager,", "code saves 45", "autograd 20", "Python 5", "code adds 30", "guards 4",
         "saves 36", "up to 1 %"],
        share=0.45,
        silent={
            "no steps": last(steps_gap=None),
            "the row is slower": last(speedup=Estimate(0.9, 0.89, 0.91)),
            "the steps say that the mode is slower": last(steps_gap=Estimate(-0.1, -0.2, -0.05)),
            "the steps say that it gains far less": last(steps_gap=Estimate(0.2, 0.15, 0.25)),
            "with another layout, so eager is not the baseline": last(
                axes='{"layout":"channels_last"}'
            ),
            "the control differs by as much": last(steps_control=Estimate(0.5, 0.4, 0.6)),
        },
        still={
            "the steps may be of a slower mode": last(steps_gap=ends(low=-0.1)),
            "the control differs by less": last(steps_control=Estimate(0.3, 0.2, 0.4)),
        },
    ),
    "measured_loss": World(
        [_of(SLOW)],
        ["eager,", "entering compiled code adds 110", "guards 20", "code saves 45", "adds 60",
         "up to 2"],
        silent={
            "no steps": last(steps_gap=None),
            "the steps say that the mode is faster": last(steps_gap=Estimate(0.1, 0.05, 0.2)),
            "the row may be faster": last(speedup=ends(high=1.01)),
            "by another precision": last(dtype="bf16"),
        },
    ),
    "measured_parts": World(
        [_of(EVEN)],
        ["entering compiled code adds 66", "code saves 45", "may save or add nothing"],
        silent={
            "no steps": last(steps_gap=None),
            "the row is faster": last(speedup=Estimate(1.1, 1.05, 1.15)),
        },
        still={
            "the row is faster, by another precision": last(
                speedup=Estimate(1.5, 1.45, 1.55), dtype="bf16"
            ),
        },
    ),
}  # fmt: skip
