"""Worlds of `analysis.causes.compiler`."""

from __future__ import annotations

from tests.helpers.cause_worlds.world import World, kernels, last
from tests.helpers.causes import profiled
from tests.helpers.studies import record

FUSED = ("x_cpp_fused_gelu_0", 1, 40e-6)
CHANGED = '["a global changed"]'
PRINTS = '[{"place": "net.py:12", "reason": "print"}]'

WORLDS = {
    "compiled_by_model": World(
        [record("no_grad", speedup=1.1, own_graphs=2)],
        "the model compiles a part of itself (2 graphs) in eager too, so a gain of compiling it is "
        "larger than against plain eager code.",
        silent={"nothing": last(own_graphs=None), "no graph": last(own_graphs=0)},
    ),
    "recompiles": World(
        [record("compile", speedup=0.8, recompiles=2, recompile_reasons=CHANGED)],
        "torch compiled again 2 times while calls were timed: a global changed.",
        share=1.0,
        silent={
            "never again": last(recompiles=0, recompile_reasons="[]"),
            "nothing recorded": last(recompiles=0, recompile_reasons=None),
            "nothing is compiled": last(compile_mode="none"),
        },
        still={"before the calls were timed": last(recompiles=0)},
    ),
    "graph_breaks": World(
        [
            record("compile", speedup=0.8, graph_breaks=1, graph_break_reasons=PRINTS,
                   eager_functions='["Net.forward"]')
        ],
        "the model is compiled in pieces, with 1 graph break: print at net.py:12; in eager: "
        "Net.forward.",
        silent={"none": last(graph_breaks=0), "unknown": last(graph_breaks=None)},
        still={"of an unknown place": last(graph_break_reasons=None)},
    ),
    "fallbacks": World(
        [
            record("compile", speedup=0.8, fallback_kernels='["aten.sort.stable"]',
                   **profiled(100e-6, ("aten::sort", 1, 40e-6), FUSED))
        ],
        "40 % of a call is operators that Inductor leaves to eager (aten::sort 40 %).",
        share=0.4,
        silent={
            "less than a tenth of a call": last(
                heaviest_kernels=kernels(("aten::sort", 1, 9.9e-6), FUSED)
            ),
            "other operators": last(fallback_kernels='["aten.unique2.default"]'),
            "a profile that contradicts the clocks": last(flags=["split_disagrees"]),
        },
        still={
            "a tenth of a call": last(heaviest_kernels=kernels(("aten::sort", 1, 10.1e-6), FUSED))
        },
    ),
}  # fmt: skip
"""By the code of the cause."""
