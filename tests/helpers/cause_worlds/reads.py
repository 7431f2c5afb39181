"""Worlds of `analysis.causes.reads`: a call of 400 µs of the baseline, with evicted weights."""

from __future__ import annotations

from typing import Any

from tests.helpers.causes import World, last
from tests.helpers.studies import record

MIB = 2**20

COLD: dict[str, Any] = {
    "data": "cold_weights", "evicted_bytes": 4 * MIB, "baseline_evicted_bytes": 4 * MIB,
    "cold_read_s": 4 * MIB / 40e9, "warm_read_s": 20e-6,
}  # fmt: skip
HALF: dict[str, Any] = {
    **COLD, "dtype": "bf16", "evicted_bytes": 2 * MIB, "cold_read_s": 2 * MIB / 40e9
}  # fmt: skip

WORLDS = {
    "cold_reads": World(
        [record("no_grad", 400e-6, 1.0, **COLD)],
        ["4.00 MiB", "cold weights", "105 µs", "40 GB/s", "20.0 µs", "21 %"],
        share=(4 * MIB / 40e9 - 20e-6) / 400e-6,
        silent={
            "data are warm": last(cold_read_s=None, warm_read_s=None),
            "less than 3 % of the call": last(cold_read_s=31e-6),
        },
        still={"more than 3 % of the call": last(cold_read_s=33e-6)},
    ),
    "fewer_cold_reads": World(
        [record("eager", 200e-6, 2.0, **HALF)],
        ["2.00 MiB", "4.00 MiB", "40 GB/s", "13 %"],
        share=2 * MIB / 40e9 / 400e-6,
        silent={
            "as many as the baseline": last(evicted_bytes=4 * MIB),
            "a little fewer": last(evicted_bytes=int(3.7 * MIB)),
            "the mode is no faster": last(speedup=None),
            "data are warm": last(cold_read_s=None, evicted_bytes=None),
        },
    ),
}
