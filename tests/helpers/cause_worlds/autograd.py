"""Worlds of `analysis.causes.autograd`."""

from __future__ import annotations

import json

from tests.helpers.causes import Change, World, alone, first, last, profiled
from tests.helpers.rows import ends, row_with
from tests.helpers.studies import record


def _kernels(name: str, seconds: float = 6e-4) -> str:
    """The column of a profile with this kernel alone."""
    return json.dumps([{"name": name, "count": 4, "seconds": seconds}])


def _compiled(name: str) -> Change:
    """Adds a compiled row that runs this kernel, which is then the one that is explained."""
    return lambda rows: [
        *rows,
        row_with(
            rows[-1], mode="compile", compile_mode="default", run_id="compiled",
            heaviest_kernels=_kernels(name),
        ),
    ]  # fmt: skip


WORLDS = {
    "grad_left_on": World(
        [record("inference_mode", speedup=1.5), record("eager", speedup=1.0)],
        ["inference_mode", "1.50×"],
        share=1 / 3,
        silent={
            "a step of training": last(phase="train"),
            "nothing is recorded": last(grad="no_grad"),
            "the other mode is compiled": first(compile_mode="default"),
            "less than 3 % apart, by the intervals": last(speedup=ends(high=1.47)),
        },
        still={"more than 3 % apart, by the intervals": last(speedup=ends(high=1.42))},
    ),
    "no_autograd": World(
        [record("eager", speedup=1.0), record("inference_mode", speedup=1.25)],
        ["20 %"],
        share=0.2,
        silent={
            "recording is on": last(grad="enabled"),
            "a step of training": last(phase="train"),
            "the interval admits a gain of 2 %": last(speedup=ends(low=1.02)),
        },
        still={"the interval excludes a gain of 3 %": last(speedup=ends(low=1.04))},
    ),
    "other_path": World(
        [
            record("eager", speedup=1.0, **profiled(1e-3, ("aten::addmm", 16, 9e-4))),
            record("inference_mode", speedup=1.25,
                   **profiled(8e-4, ("aten::_fwd", 4, 6e-4), ("aten::addmm", 1, 7e-5))),
        ],
        ["aten::_fwd 75 %", "20 %"],
        share=0.2,
        silent={
            "recording is on": last(grad="enabled"),
            "the interval admits a gain of 2 %": last(speedup=ends(low=1.02)),
            "eager has the kernel, too": first(heaviest_kernels=_kernels("aten::_fwd")),
            "less than a tenth of a call": last(heaviest_kernels=_kernels("aten::_fwd", 7e-5)),
            "eager's kernels are unknown": first(heaviest_kernels=None),
            "eager was not measured": alone,
            "a compiled mode takes eager's path": _compiled("aten::addmm"),
        },
        still={
            "a compiled mode takes it, too": _compiled("aten::_fwd"),
            "more than a tenth of a call": last(heaviest_kernels=_kernels("aten::_fwd", 9e-5)),
        },
    ),
}  # fmt: skip
