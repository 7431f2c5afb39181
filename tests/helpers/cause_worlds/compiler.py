"""Worlds of `analysis.causes.compiler`. With calls=mix, seq is 10, 20, 10, 40, 20 and 80."""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.causes import World, first, kernels, last, profiled
from tests.helpers.studies import record

MIB = 2**20
UNTUNABLE = "Exception No valid triton configs. OutOfMemoryError: out of resource: triton_mm"
STEADY: dict[str, Any] = {
    "resident_bytes": 10 * MIB, "step_peak_bytes": 0, "graph_pool_bytes": 0,
    "graph_pool_live_bytes": 0,
}  # fmt: skip
CALL_S = 400e-6  # of the baseline
FUSED = ("x_cpp_fused_gelu_0", 1, 40e-6)
CHANGED = '["a global changed"]'
PRINTS = '[{"place": "net.py:12", "reason": "print"}]'
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


def tested(seconds: float) -> str:
    """The phases of three processes, which test the processor for so long on average."""
    parts = (0.5, 0.6, 1.9)
    return json.dumps([{"import": 2.0, "probe": part * seconds} for part in parts])


WORLDS = {
    "eager_fallback": World(
        [record("compile", speedup=0.8, **VARIED, gave_up_at_call=4, eager_calls="[4, 6]")],
        ["at call 4", "after 2", "size mismatch", "2 of 6 calls"],
        share=14 / 20,
        silent={
            "all are compiled": last(gave_up_at_call=None, eager_calls=None),
            "nothing is compiled": last(compile_mode="none"),
            "calls repeat": last(calls=None),
        },
    ),
    "padding": World(
        [record("compile", speedup=0.8, **VARIED, calls_pad=json.dumps({"seq": [20, 80]}))],
        ["1.33×"],
        share=0.25,
        silent={
            "buckets of these sizes": last(calls_pad=json.dumps({"seq": [10, 20, 40, 80]})),
        },
    ),
    "size_compiles": World(
        [record("compile", speedup=0.8, **VARIED)],
        ["2 of the first 6 calls", "1 and 2", "5.00 s", "size mismatch"],
        silent={
            "once": last(compiled_calls=json.dumps(COMPILED[:1])),
            "calls repeat": last(calls=None),
        },
    ),
    "recompiles": World(
        [record("compile", speedup=0.8, recompiles=2, recompile_reasons=CHANGED)],
        ["2 times", "a global changed"],
        share=1.0,
        silent={
            "never again": last(recompiles=0, recompile_reasons="[]"),
            "nothing is compiled": last(compile_mode="none"),
        },
        still={"before the calls were timed": last(recompiles=0)},
    ),
    "graph_breaks": World(
        [
            record("compile", speedup=0.8, graph_breaks=1, graph_break_reasons=PRINTS,
                   eager_functions='["Net.forward"]')
        ],
        ["1 graph break", "print at net.py:12", "Net.forward"],
        silent={"none": last(graph_breaks=0)},
        still={"of an unknown place": last(graph_break_reasons=None)},
    ),
    "fallbacks": World(
        [
            record("compile", speedup=0.8, fallback_kernels='["aten.sort.stable"]',
                   **profiled(100e-6, ("aten::sort", 1, 40e-6), FUSED))
        ],
        ["40 % of a call", "aten::sort 40 %"],
        share=0.4,
        silent={
            "less than a tenth of a call": last(
                heaviest_kernels=kernels(("aten::sort", 1, 9.9e-6), FUSED)
            ),
            "other operators": last(fallback_kernels='["aten.unique2.default"]'),
            "a profile that contradicts the clocks": last(flags=["split_disagrees"]),
            "kernels that were asked for": last(kernel_names='["aten::sort"]'),
            "the backward of a kernel that was asked for": last(
                kernel_names='["my::norm"]', fallback_kernels='["my.norm_backward.default"]',
                heaviest_kernels=kernels(("my::norm_backward", 1, 40e-6)),
            ),
        },
        still={
            "a tenth of a call": last(heaviest_kernels=kernels(("aten::sort", 1, 10.1e-6), FUSED))
        },
    ),
    "first_call": World(
        [record("compile", CALL_S / 1.25, 1.25, spread=0.002, first_call_s=4.0,
                compile_phases_s='{"dynamo": 0.8, "inductor": 3.1}')],
        ["4.00 s", "10,000 calls", "inductor 3.10 s", "dynamo 0.800 s"],
        silent={
            "less than a thousand calls": last(first_call_s=0.399),
            "unknown": last(first_call_s=None),
            "nothing is compiled or captured": last(compile_mode="none"),
        },
        still={"a thousand calls": last(first_call_s=0.401)},
    ),
    "instruction_tests": World(
        [record("compile", starts_s=(10.0,) * 3, start_phases_s=tested(4.0))],
        ["4.00 s", "10.0 s"],
        silent={
            "a fifth": last(start_phases_s=tested(2.0)),
            "not started": last(start_s=None, start_phases_s=None),
        },
        still={"more than a fifth": last(start_phases_s=tested(2.01))},
    ),
    "memory_of_compiling": World(
        [
            record("inference_mode", speedup=1.0, setup_peak_bytes=4 * MIB, **STEADY),
            record("compile", speedup=1.0, setup_peak_bytes=400 * MIB, **STEADY),
        ],
        ["400 MiB", "4.00 MiB", "10.0 MiB"],
        silent={
            "less than 32 MiB more than in eager": last(setup_peak_bytes=35 * MIB),
            "less than twice a steady call": last(peak_bytes=201 * MIB),
            "nothing is compiled": last(compile_mode="none"),
            "eager's is unknown": first(setup_peak_bytes=None),
        },
        still={
            "32 MiB more than in eager": last(setup_peak_bytes=37 * MIB),
            "twice a steady call": last(peak_bytes=199 * MIB),
        },
    ),
    "torch_warning": World(
        [record("no_grad", torch_warnings='["TensorFloat32 is not enabled.  Consider it."]')],
        ["TensorFloat32 is not enabled. Consider it."],
        silent={
            "no warning": last(torch_warnings="[]"),
            "of what autotuning cannot run": last(torch_warnings=f'["{UNTUNABLE}"]'),
        },
        still={
            "beside one of autotuning": last(
                torch_warnings=f'["{UNTUNABLE}", "TensorFloat32 is not enabled.  Consider it."]'
            )
        },
    ),
}  # fmt: skip
