"""Dispatch: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from typing import Any

import torch

from bench.claims.chapters.cpp import CUSTOM_OP, LIBRARY, Own
from bench.claims.chapters.dispatch_costs import Costs
from bench.claims.chapters.dispatch_hooks import SPELLINGS, Hooks
from bench.claims.chapters.dispatch_paths import (
    GRADIENTS,
    INFERENCE,
    MADE_IN_INFERENCE,
    NO_GRAD,
    Paths,
)
from bench.claims.chapters.dispatch_trace import OPERATORS, VARIABLE, Trace
from bench.claims.chapters.inference_speed import Gains
from bench.claims.chapters.launches import Marks
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from bench.devices import Cpu
from bench.stats import Estimate
from tests.bench.claims.examples import Examples, World

Bounds = tuple[float, float | None, float | None]


def estimates(*bounds: Bounds) -> dict[str, Estimate]:
    return {f"op {i}": Estimate(*each) for i, each in enumerate(bounds)}


def costs(*microseconds: Bounds) -> Costs:
    scaled = [tuple(None if x is None else x * 1e-6 for x in each) for each in microseconds]
    return Costs(estimates(*scaled), 3e-8)  # type: ignore[arg-type]


WITH = "AutogradCPU → CPU"


def paths(no_grad: int, inference: int, made: int, gradients: int = 1, agree: bool = True) -> Paths:
    entered = dict(
        zip(
            (GRADIENTS, NO_GRAD, INFERENCE, MADE_IN_INFERENCE),
            (gradients, no_grad, inference, made),
            strict=True,
        )
    )
    walked = {
        f"torch.add(x, w) {mode}": WITH if count else "CPU" for mode, count in entered.items()
    }
    return Paths(1, entered, walked, agree)


SMALL, TINY, LARGE = "50 small", "50 tiny", "one large"


def gains(small: Bounds, tiny: Bounds, large: Bounds, overhead: float = 0.9) -> Gains:
    saved = dict(
        zip((SMALL, TINY, LARGE), (Estimate(*e) for e in (small, tiny, large)), strict=True)
    )
    shares = {SMALL: overhead, TINY: overhead, LARGE: 0.01}
    return Gains(saved, {name: Estimate(each, each, each) for name, each in shares.items()}, {})


TENTH, FIFTH, NOTHING = (0.1, 0.09, 0.11), (0.2, 0.19, 0.21), (0.0, -0.005, 0.005)

GOT = dict.fromkeys(SPELLINGS, "aten.add.Tensor") | {"w.T": "aten.permute.default"}
API = dict.fromkeys(SPELLINGS, "torch.add") | {"w.T": "torch.Tensor.T.__get__"}
RESOLVED = dict.fromkeys(GOT, True)
HOOKS = Hooks(API, GOT, GOT, RESOLVED, recorded_below=False, recorded_after=True)

TRACED = Trace(5, dict.fromkeys(OPERATORS, True), without=0, debug_build=True)

CHEAP, DEAR = Estimate(3.0, 2.9, 3.1), Estimate(0.5, 0.4, 0.6)
OWN = Own(
    by_tensor={"CPU": True, "meta": True},
    seen="modescope_cpp.scale.default",
    refused="no kernel",
    gradient=7.0,
    ratio={CUSTOM_OP: CHEAP, LIBRARY: CHEAP},
)


def marks(small: Bounds, *large: Bounds, kernel_s: float = 3e-6) -> Marks:
    others = {f"large {i}": Estimate(*each) for i, each in enumerate(large)}
    return Marks(
        {"small": 3e-4} | dict.fromkeys(others, 3e-4),
        {"small": 1e-4} | dict.fromkeys(others, 9e-3),
        {"small": kernel_s} | dict.fromkeys(others, 1e-3),
        {"small": Estimate(*small)} | others,
    )


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
    "no-grad-removes-key": {
        HOLDS: [paths(no_grad=0, inference=0, made=0)],
        REFUTED: [paths(no_grad=1, inference=0, made=0)],
        UNDECIDED: [
            paths(no_grad=0, inference=0, made=0, gradients=0),
            paths(no_grad=1, inference=0, made=0, agree=False),
        ],
    },
    "no-grad-enters-kernel": {
        HOLDS: [paths(no_grad=1, inference=0, made=1)],
        WITHIN_LIMITS: [paths(no_grad=1, inference=0, made=0)],
        REFUTED: [paths(no_grad=0, inference=0, made=0), paths(no_grad=1, inference=1, made=1)],
        UNDECIDED: [paths(no_grad=1, inference=0, made=1, agree=False)],
    },
    "inference-vs-no-grad": {
        HOLDS: [gains(TENTH, TENTH, NOTHING)],
        WITHIN_LIMITS: [gains(TENTH, FIFTH, NOTHING)],
        REFUTED: [
            gains(FIFTH, FIFTH, NOTHING),
            gains(NOTHING, NOTHING, NOTHING),
            gains(TENTH, TENTH, (0.03, 0.025, 0.035)),
        ],
        UNDECIDED: [
            gains(TENTH, (0.05, 0.04, 0.06), NOTHING),
            gains(TENTH, TENTH, (0.02, 0.01, 0.03)),
            gains(TENTH, FIFTH, (0.0, -0.04, 0.015)),
            gains(TENTH, TENTH, NOTHING, overhead=0.3),
        ],
    },
    "dispatch-mode-sees": {
        HOLDS: [HOOKS],
        WITHIN_LIMITS: [replace(HOOKS, in_inference=GOT | {"w.T": "aten.numpy_T.default"})],
        REFUTED: [
            replace(HOOKS, functions=API | {"w.T": "aten.permute.default"}),
            replace(HOOKS, functions=API | {"w.T": "torch.a, torch.b"}),
            replace(HOOKS, operators=GOT | {"w.T": "torch.permute"}),
            replace(HOOKS, operators=GOT | {SPELLINGS[0]: "aten.sub.Tensor"}),
            replace(HOOKS, resolved=RESOLVED | {"w.T": False}),
            replace(HOOKS, recorded_below=True),
            replace(HOOKS, recorded_after=False),
        ],
    },
    "dispatch-trace": {
        HOLDS: [TRACED],
        REFUTED: [
            replace(TRACED, lines=0, named=dict.fromkeys(OPERATORS, False), debug_build=False),
            replace(TRACED, named=dict.fromkeys(OPERATORS, True) | {OPERATORS[1]: False}),
            replace(TRACED, without=5),
        ],
    },
    "cpp-op": {
        HOLDS: [OWN],
        WITHIN_LIMITS: [replace(OWN, ratio={CUSTOM_OP: CHEAP, LIBRARY: DEAR})],
        REFUTED: [
            replace(OWN, ratio={CUSTOM_OP: DEAR, LIBRARY: DEAR}),
            replace(OWN, by_tensor={"CPU": True, "meta": False}),
            replace(OWN, refused=None),
            replace(OWN, seen=""),
            replace(OWN, gradient=3.0),
        ],
        UNDECIDED: [replace(OWN, ratio={CUSTOM_OP: CHEAP, LIBRARY: Estimate(1.0, 0.9, 1.1)})],
    },
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


def _tracing(command: Any, env: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    lines = [f"[call] op=[{name}], key=[AutogradCPU]" for name in OPERATORS]
    said = [*(lines if VARIABLE in env else []), "debug: True"]
    return subprocess.CompletedProcess(command, 0, "\n".join(said))


WORLDS = [
    World(
        "dispatch-cost",
        "all takes thirty times as long",
        REFUTED,
        lambda patch: patch.setattr(Cpu, "clock", staticmethod(lambda: 30 * time.perf_counter())),
    ),
    World(
        "no-grad-removes-key",
        "no_grad takes the key away",
        HOLDS,
        lambda patch: patch.setattr(torch, "no_grad", torch.inference_mode),
    ),
    World(
        "no-grad-enters-kernel",
        "no_grad takes the key away",
        REFUTED,
        lambda patch: patch.setattr(torch, "no_grad", torch.inference_mode),
    ),
    World(
        "no-grad-enters-kernel",
        "inference_mode only stops recording",
        REFUTED,
        lambda patch: patch.setattr(torch, "inference_mode", torch.no_grad),
    ),
    World(
        "dispatch-mode-sees",
        "the API is that of aten",
        REFUTED,
        lambda patch: patch.setattr(torch, "add", torch.ops.aten.add.Tensor),
    ),
    World(
        "dispatch-mode-sees",
        "inference_mode takes composite operators apart",
        HOLDS,
        lambda patch: patch.setattr(torch, "inference_mode", torch.enable_grad),
    ),
    World(
        "dispatch-trace",
        "a build that traces",
        HOLDS,
        lambda patch: patch.setattr(subprocess, "run", _tracing),
    ),
    World(
        "cpp-op",
        "registering by custom_op costs nothing",
        WITHIN_LIMITS,
        lambda patch: patch.setattr(torch.library, "custom_op", lambda name, fn, **_: fn),
    ),
]
