"""Worlds of `analysis.causes.prepared`."""

from __future__ import annotations

from typing import Any

from modescope.bench.stats.estimates import Estimate
from tests.helpers.causes import World, alone, first, last
from tests.helpers.rows import ends
from tests.helpers.studies import cpu_clocks, record

FROZEN: dict[str, Any] = {"axes": '{"freezing":true}', "frozen_weights": 12, "packed_weights": 4}
BUILT: dict[str, Any] = {"package_export_s": 1.0, "package_build_s": 30.0}

WORLDS = {
    "packed_weights": World(
        [record("compile", speedup=1.25), record("freezing", speedup=2.0, **FROZEN)],
        ["4 weights", "12 are constants", "30 %", "compile"],
        share=0.3,
        silent={
            "none was packed": last(packed_weights=0),
            "the intervals meet": last(speedup=ends(low=1.2)),
            "the mode without frozen weights is unknown": alone,
            "the other mode has other options": first(compile_options='{"dynamic":true}'),
            "the other freezes, too": first(axes='{"freezing":true}'),
            "less than 3 % apart": first(speedup=Estimate(1.93, 1.92, 1.94)),
        },
        still={"more than 3 % apart": first(speedup=Estimate(1.87, 1.86, 1.88))},
    ),
    "called_without_guards": World(
        [
            record("compile", 320e-6, 1.25, **cpu_clocks(320e-6, 50e-6)),
            record("aoti", 200e-6, 2.0, **BUILT),
        ],
        ["30 %", "compile", "50.0 µs"],
        share=0.3,
        silent={
            "no package": last(package_export_s=None, package_build_s=None),
            "the intervals meet": last(speedup=ends(low=1.2)),
            "nothing was compiled in the process": alone,
            "what compiled is in another precision": first(dtype="bf16"),
        },
        still={"the time of dispatch is unknown": first(dispatch_s=None)},
    ),
}
