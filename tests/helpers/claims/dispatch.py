"""Dispatch: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.chapters.dispatch.cpp import CUSTOM_OP, LIBRARY
from modescope.bench.tools.claims.chapters.dispatch.hooks import OPERATORS, SPELLINGS, VARIABLE
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.helpers.claims.examples import Examples, World, Worlds, replaced, variants

Bounds = tuple[float, float | None, float | None]


def estimates(*bounds: Bounds) -> dict[str, Estimate]:
    return {f"op {i}": Estimate(*each) for i, each in enumerate(bounds)}


def costs(*microseconds: Bounds) -> dict[str, Any]:
    scaled = [tuple(None if x is None else x * 1e-6 for x in each) for each in microseconds]
    return {"seconds": estimates(*scaled), "empty_s": 3e-8}  # type: ignore[arg-type]


ENTERED, SKIPPED = {"x.relu()": "AutogradCPU → CPU"}, {"x.relu()": "CPU"}
REMOVED = {"gradients": ENTERED, "no_grad": SKIPPED}
STILL_ENTERED = REMOVED | {
    "no_grad": ENTERED,
    "inference": SKIPPED,
    "made_in_inference": ENTERED,
}

SMALL, TINY, LARGE = "50 small", "50 tiny", "one large"


def gains(small: Bounds, tiny: Bounds, large: Bounds, overhead: float = 0.9) -> dict[str, Any]:
    saved = dict(
        zip((SMALL, TINY, LARGE), (Estimate(*e) for e in (small, tiny, large)), strict=True)
    )
    shares = {SMALL: overhead, TINY: overhead, LARGE: 0.01}
    return {
        "saved": saved,
        "overhead": {name: Estimate(each, each, each) for name, each in shares.items()},
    }


TENTH, FIFTH, NOTHING = (0.1, 0.09, 0.11), (0.2, 0.19, 0.21), (0.0, -0.005, 0.005)

GOT = dict.fromkeys(SPELLINGS, "aten.add.Tensor") | {"w.T": "aten.permute.default"}
API = dict.fromkeys(SPELLINGS, "torch.add") | {"w.T": "torch.Tensor.T.__get__"}
HOOKS = {"functions": API, "operators": GOT, "in_inference": GOT}

CHEAP, DEAR = Estimate(3.0, 2.9, 3.1), Estimate(0.5, 0.4, 0.6)
OWN = {"refused": "no kernel", "ratio": {CUSTOM_OP: CHEAP, LIBRARY: CHEAP}}


def marks(small: Bounds, *large: Bounds, kernel_s: float = 3e-6) -> dict[str, Any]:
    others = {f"large {i}": Estimate(*each) for i, each in enumerate(large)}
    return {
        "self_cpu_s": {"small": 3e-4} | dict.fromkeys(others, 3e-4),
        "self_cuda_s": {"small": 1e-4} | dict.fromkeys(others, 9e-3),
        "kernel_s": {"small": kernel_s} | dict.fromkeys(others, 1e-3),
        "speedups": {"small": Estimate(*small)} | others,
    }


EXAMPLES: Examples = {
    "dispatch-cost": {
        HOLDS: [costs((2.0, 1.9, 2.1)), costs((1.5, 1.0, 1.6), (4.9, 4.8, 5.0))],
        WITHIN_LIMITS: [
            costs((2.0, 1.9, 2.1), (0.4, 0.3, 0.5)),
            costs((2.0, 1.9, 2.1), (7.0, 6.9, 7.1), (1.0, 0.9, 1.1)),
        ],
        REFUTED: [costs((0.4, 0.3, 0.5)), costs((0.4, 0.3, 0.5), (7.0, 6.0, 8.0))],
        UNDECIDED: [
            costs((2.0, 1.9, 2.1), (1.0, 0.9, 1.1)),
            costs((0.4, 0.3, 0.5), (5.0, 4.9, 5.1)),
            costs((2.0, None, None)),
        ],
    },
    "no-grad-removes-key": variants(
        REMOVED,
        refuted=[{"no_grad": ENTERED}],
        undecided=[{"gradients": SKIPPED}, {"no_grad": ENTERED, "agree": False}],
    ),
    "no-grad-enters-kernel": variants(
        STILL_ENTERED,
        holds_within_limits=[{"made_in_inference": SKIPPED}],
        refuted=[{"no_grad": SKIPPED}, {"inference": ENTERED}],
        undecided=[{"gradients": SKIPPED}, {"no_grad": SKIPPED, "agree": False}],
    ),
    "inference-vs-no-grad": {
        HOLDS: [gains(TENTH, TENTH, NOTHING)],
        WITHIN_LIMITS: [
            gains(TENTH, FIFTH, NOTHING),
            gains(TENTH, FIFTH, (0.0, -0.04, 0.015)),
        ],
        REFUTED: [
            gains(FIFTH, FIFTH, NOTHING),
            gains(NOTHING, NOTHING, NOTHING),
            gains(TENTH, TENTH, (0.03, 0.025, 0.035)),
            gains(TENTH, TENTH, (0.2, 0.1, 0.3)),
        ],
        UNDECIDED: [
            gains(TENTH, (0.05, 0.04, 0.06), NOTHING),
            gains(TENTH, TENTH, (0.02, 0.01, 0.03)),
            gains(TENTH, TENTH, NOTHING, overhead=0.3),
        ],
    },
    "dispatch-mode-sees": variants(
        HOOKS,
        holds_within_limits=[{"in_inference": GOT | {"w.T": "aten.numpy_T.default"}}],
        refuted=[
            {"functions": API | {"w.T": "aten.permute.default"}},
            {"functions": API | {"w.T": "torch.a, torch.b"}},
            {"operators": GOT | {"w.T": "torch.permute"}},
            {"operators": GOT | {"w.T": "aten.permute"}},
            {"operators": GOT | {SPELLINGS[0]: "aten.sub.Tensor"}},
        ],
    ),
    "cpp-op": variants(
        OWN,
        holds_within_limits=[{"ratio": {CUSTOM_OP: CHEAP, LIBRARY: DEAR}}],
        refuted=[{"ratio": {CUSTOM_OP: DEAR, LIBRARY: DEAR}}, {"refused": None}],
        undecided=[{"ratio": {CUSTOM_OP: CHEAP, LIBRARY: Estimate(1.0, 0.9, 1.1)}}],
    ),
    "profiler-launch-bound": {
        HOLDS: [marks((3.0, 2.9, 3.1), (1.0, 0.99, 1.01))],
        WITHIN_LIMITS: [
            marks((3.0, 2.9, 3.1), (1.3, 1.2, 1.4)),
            marks((3.0, 2.9, 3.1), (1.3, 1.2, 1.4), (1.1, 1.05, 1.15)),
        ],
        REFUTED: [marks((1.0, 0.99, 1.005), (1.0, 0.99, 1.01))],
        UNDECIDED: [
            marks((1.02, 1.0, 1.05), (1.0, 0.99, 1.01)),
            marks((3.0, 2.9, 3.1), (1.1, 1.05, 1.15)),
            marks((3.0, 2.9, 3.1), (1.3, None, None)),
            marks((3.0, 2.9, 3.1), (1.0, 0.99, 1.01), kernel_s=2e-5),
        ],
    },
}


def _slow_clock() -> float:
    return 30 * time.perf_counter()


def _tracing(command: Any, env: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    lines = [f"[call] op=[{name}], key=[AutogradCPU]" for name in OPERATORS]
    return subprocess.CompletedProcess(command, 0, "\n".join(lines if VARIABLE in env else []))


NO_KEY = replaced(torch, "no_grad", torch.inference_mode)

WORLDS: Worlds = {
    "dispatch-cost": [
        World(
            "all takes thirty times as long",
            REFUTED,
            replaced(Cpu, "clock", staticmethod(_slow_clock)),
        )
    ],
    "no-grad-removes-key": [World("no_grad takes the key away", HOLDS, NO_KEY)],
    "no-grad-enters-kernel": [
        World("no_grad takes the key away", REFUTED, NO_KEY),
        World(
            "inference_mode only stops recording",
            REFUTED,
            replaced(torch, "inference_mode", torch.no_grad),
        ),
    ],
    "dispatch-mode-sees": [
        World("the API is aten's", REFUTED, replaced(torch, "add", torch.ops.aten.add.Tensor)),
        World(
            "inference_mode takes composite operators apart",
            HOLDS,
            replaced(torch, "inference_mode", torch.enable_grad),
        ),
    ],
    "dispatch-trace": [World("a build that traces", HOLDS, replaced(subprocess, "run", _tracing))],
    "cpp-op": [
        World(
            "registering by custom_op costs nothing",
            WITHIN_LIMITS,
            replaced(torch.library, "custom_op", lambda name, function, **_: function),
        )
    ],
}
