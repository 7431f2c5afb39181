"""Worlds of `analysis.causes.calls`: passes over the lengths 10, 20, 10, 40, 20 and 80."""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.cause_worlds.world import World, last
from tests.helpers.studies import record

COMPILED = [
    {"call": 1, "seconds": 3.0, "reason": None},
    {"call": 2, "seconds": 2.0, "reason": "size mismatch"},
]
VARIED: dict[str, Any] = {
    "calls": json.dumps({"seq": [10, 20, 10, 40, 20, 80]}),
    "first_pass_s": json.dumps([3.0, 2.0, 0.001, 0.004, 0.002, 0.008]),
    "compiled_calls": json.dumps(COMPILED),
    "size_latencies_s": json.dumps(
        {"seq=10": [1e-3, 2e-3], "seq=20": [2e-3, 3e-3], "seq=40": [4e-3, 4e-3],
         "seq=80": [10e-3, 8e-3]}
    ),
}  # fmt: skip

WORLDS = {
    "eager_fallback": World(
        [record("compile", speedup=0.8, **VARIED, gave_up_at_call=4, eager_calls="[4, 6]")],
        "torch gives up at call 4, after 2 compilations: size mismatch; 2 of 6 calls of a pass run "
        "in eager since then.",
        share=14 / 20,
        silent={
            "all are compiled": last(gave_up_at_call=None, eager_calls=None),
            "nothing is compiled": last(compile_mode="none"),
            "calls repeat": last(calls=None),
        },
    ),
    "padding": World(
        [record("compile", speedup=0.8, **VARIED, calls_pad=json.dumps({"seq": [20, 80]}))],
        "padding makes its calls 1.33 times as large as those of the baseline.",
        share=0.25,
        silent={
            "buckets of these sizes": last(calls_pad=json.dumps({"seq": [10, 20, 40, 80]})),
            "no padding": last(calls_pad=None),
        },
    ),
    "size_compiles": World(
        [record("compile", speedup=0.8, **VARIED)],
        "torch compiles in 2 of the first 6 calls (1 and 2), which take 5.00 s: size mismatch.",
        silent={
            "once": last(compiled_calls=json.dumps(COMPILED[:1])),
            "calls repeat": last(calls=None),
        },
    ),
}  # fmt: skip
"""By the code of the cause."""
