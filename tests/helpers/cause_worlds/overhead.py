"""Worlds of `analysis.causes.overhead`."""

from __future__ import annotations

from modescope.bench.records.results import Record
from tests.helpers.causes import World, alone, last, profiled
from tests.helpers.rows import ends
from tests.helpers.studies import PACE_S, cpu_clocks, cuda_clocks, record


def _half_dispatch() -> Record:
    """A row of plain eager without gradients, as fast as its baseline: 400 µs, half dispatch."""
    return record("inference_mode", 400e-6, 1.0, ops_dispatched=40, **cpu_clocks(400e-6, 200e-6))


WORLDS = {
    "slow_host": World(
        [
            record("cuda-graph", speedup=1.2, pace_rounds_s=(2.1 * PACE_S,) * 24,
                   best_pace_s=PACE_S, **cuda_clocks(5e-6, 39e-6))
        ],
        ["2.1×", "2.5 % less"],
        silent={
            "on a CPU, where it slows both sides": last(device="cpu"),
            "the baseline against itself": last(mode="eager"),
            "at its usual pace": last(flags=[], flags_touch=[]),
        },
        still={"other device times are unknown": last(device_gain=None)},
    ),
    "less_overhead": World(
        [
            _half_dispatch(),
            record("compile", 200e-6, 2.0, ops_dispatched=10, **cpu_clocks(200e-6, 20e-6),
                   **profiled(200e-6, ("aten::addmm", 4, 180e-6))),
        ],
        ["45 %", "40 operators became 10"],
        share=0.45,
        silent={
            "not faster by the interval": last(speedup=ends(low=0.99)),
            "as much beside the kernels, by its upper end": last(kernels_s=10e-6),
            "no plain eager": alone,
        },
        still={"less beside the kernels, by its upper end": last(kernels_s=60e-6)},
    ),
    "compiled_code": World(
        [record("inference_mode", speedup=1.25), record("compile", speedup=2.5)],
        ["40 %", "inference_mode"],
        share=0.4,
        silent={
            "nothing is compiled": last(compile_mode="none"),
            "the intervals meet": last(speedup=ends(low=1.2)),
            "the same mode without compiling is unknown": alone,
        },
        still={"the intervals are apart": last(speedup=ends(low=1.4))},
    ),
    "more_overhead": World(
        [_half_dispatch(), record("compile", 800e-6, 0.5, **cpu_clocks(800e-6, 600e-6))],
        ["(guards)", "launches", "400 µs"],
        share=0.5,
        silent={
            "not slower by the interval": last(speedup=ends(high=1.01)),
            "as much as in eager, by its lower end": last(dispatch_share=ends(low=0.25)),
            "no plain eager": alone,
        },
        still={"more than in eager, by its lower end": last(dispatch_share=ends(low=0.30))},
    ),
    "bound_by_overhead": World(
        [record("no_grad", 100e-6, 1.0, ops_dispatched=42, **cpu_clocks(100e-6, 80e-6))],
        ["dispatch", "80.0 % [79.5, 80.5]", "42 operators"],
        share=0.8,
        silent={
            "bound by work": last(bound_by="work"),
            "the interval does not decide": last(bound_by="undecided"),
            "the interval admits a gain of a tenth": last(speedup=ends(high=1.11)),
        },
    ),
    "guards": World(
        [
            record("compile", speedup=0.8, guards_s=30e-6, compiled_wrapper_s=20e-6,
                   **profiled(200e-6, ("aten::addmm", 1, 50e-6)))
        ],
        ["30.0 µs", "20.0 µs", "200 µs", "25 %"],
        share=0.25,
        silent={
            "less than a twentieth of a call": last(guards_s=5e-6, compiled_wrapper_s=4.9e-6),
            "the lookup is unknown": last(guards_s=None),
            "longer than the call": last(guards_s=181e-6),
        },
        still={"a twentieth of a call": last(guards_s=5e-6, compiled_wrapper_s=5.1e-6)},
    ),
    "regional_guards": World(
        [
            record("compile", speedup=0.9, **cpu_clocks(100e-6, 50e-6)),
            record("compile[regions=blocks]", speedup=0.8, axes='{"regions":"blocks"}', regions=8,
                   regions_called=8, guards_s=30e-6, compiled_wrapper_s=20e-6,
                   **cpu_clocks(200e-6, 80e-6), **profiled(200e-6, ("aten::addmm", 1, 50e-6))),
        ],
        ["each of 8 blocks", "30.0 µs", "25 %", "80.0 µs", "50.0 µs"],
        share=0.25,
        silent={
            "less than a twentieth of a call": last(guards_s=5e-6, compiled_wrapper_s=4.9e-6),
            "the whole model is compiled": last(regions=None, regions_called=None),
        },
        still={"the whole model was not measured": alone},
    ),
}  # fmt: skip
