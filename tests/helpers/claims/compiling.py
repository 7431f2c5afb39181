"""torch.compile: made-up observations, and a compiler that does the opposite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo import config as dynamo
from torch._dynamo.variables.misc import DebuggingVariable
from torch._inductor import lowering
from torch._inductor.async_compile import AsyncCompile

from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.chapters.compile import fusion
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.helpers.claims.examples import Examples, World, Worlds, replaced, variants


def about(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value, value - half, value + half)


WIDE = Estimate(1.4, 1.1, 1.7)
SHORT = Estimate(1.6, None, None)
TYPICAL = about(1.5), about(1.8)
LESS = about(1.1), about(1.3)

ONCE, EACH = (1, 1, 1), (1, 2, 3)
IF, FOR = "if x.sum().item() > 0", "for _ in range(int(x.sum().item()))"
BRANCHED = {
    "breaks": {IF: 1, FOR: 0, "torch.where": 0},
    "compiled": {IF: ONCE, FOR: EACH, "torch.where": ONCE},
    "switched_breaks": {IF: 1, FOR: 0},
    "switched_compiled": {IF: ONCE, FOR: EACH},
}
RECOMPILED = {
    "default": (1, 2, 2, 2),
    "smallest": (1, 2, 2, 2),
    "columns": (1, 2, 2, 2),
    "limit": 8,
    "static": (1, 2, 3, 4),
    "static_called": (1, 2, 3, 4),
    "grads": (1, 2, 2, 2),
}
TWICE = {"static": (1, 2, 2, 2), "static_called": (1, 2, 2, 2)}
NORMED = {"eager": {"a": 8, "b": 8}, "compiled": {"a": 1, "b": 1}}


def gained(*pairs: tuple[Estimate, Estimate], first_s: float = 9.0) -> dict[str, Any]:
    """Of training and inference, by size."""
    sizes = [f"size {i}" for i in range(len(pairs))]
    training, inference = zip(*pairs, strict=True)
    return {
        "training": dict(zip(sizes, training, strict=True)),
        "inference": dict(zip(sizes, inference, strict=True)),
        "first_s": dict.fromkeys(sizes, first_s),
        "step_s": dict.fromkeys(sizes, 0.1),
    }


def tuned(*gains: Estimate, **changes: Any) -> dict[str, Any]:
    models = [f"model {i}" for i in range(len(gains))]
    ratios = dict(zip(models, gains, strict=True))
    seconds = {"default_s": 2.0, "graphs_s": 3.0, "tuned_s": 30.0}
    return {
        **{mode: dict.fromkeys(models, s) for mode, s in seconds.items()},
        **{"over_default": ratios, "over_graphs": ratios},
        **changes,
    }


EXAMPLES: Examples = {
    "compile-speedup": {
        HOLDS: [gained(TYPICAL), gained((about(1.5), about(2.5)))],
        WITHIN_LIMITS: [gained(TYPICAL, LESS)],
        REFUTED: [
            gained(LESS),
            gained((about(2.5), about(3.0))),
            gained((about(1.5), about(1.2))),
            gained((WIDE, about(1.0))),
            gained(TYPICAL, first_s=0.2),
        ],
        UNDECIDED: [
            gained((about(1.3), about(1.8))),
            gained((about(1.5), about(1.51))),
            gained((about(1.5), SHORT)),
            gained((SHORT, about(1.8))),
            gained(LESS, (WIDE, about(1.8))),
        ],
    },
    "fused-pointwise": variants(
        {"launched": {}}, holds=[{"launched": {"f": 1}}], refuted=[{"launched": {"f": 3}}]
    ),
    "layernorm-kernels": variants(
        NORMED,
        holds=[{"eager": {"a": 5, "b": 9}}],
        holds_within_limits=[{"compiled": {"a": 1, "b": 2}}],
        refuted=[{"eager": {"a": 8, "b": 4}}, {"compiled": {"a": 2, "b": 2}}],
    ),
    "break-on-item": variants(
        BRANCHED,
        holds_within_limits=[{"switched_breaks": {IF: 0, FOR: 0}}],
        refuted=[
            {"breaks": {IF: 0, FOR: 0, "torch.where": 0}},
            {"breaks": {IF: 1, FOR: 0, "torch.where": 1}},
            {"compiled": {IF: ONCE, FOR: EACH, "torch.where": EACH}},
        ],
    ),
    "recompile-dynamic": variants(
        RECOMPILED,
        holds_within_limits=[
            {"smallest": (1, 2, 3, 4)},
            {"columns": (1, 2, 3, 3)},
            {"limit": 2, **TWICE},
            {"grads": (1, 2, 3, 4)},
        ],
        refuted=[
            {"default": (1, 1, 1, 1)},
            {"default": (1, 2, 3, 4)},
            {"static": (1, 1, 1, 1)},
            TWICE,
            {"static": (1, 2, 2, 3)},
            {"grads": (1, 1, 1, 1)},
        ],
    ),
    "reduce-overhead-graphs": variants(
        {"gains": {"a": about(1.5), "b": about(3.0)}},
        holds_within_limits=[{"gains": {"a": about(1.5), "b": about(1.1)}}],
        refuted=[{"gains": {"a": about(1.1), "b": about(0.9)}}],
        undecided=[
            {"gains": {"a": about(1.5), "b": about(1.2)}},
            {"gains": {"a": SHORT, "b": about(1.5)}},
            {"gains": {"a": about(1.1), "b": about(1.2)}},
        ],
    ),
    "autotune-best": {
        HOLDS: [tuned(about(1.2)), tuned(about(1.2), about(1.0, 0.001)), tuned(about(1.2), WIDE)],
        WITHIN_LIMITS: [
            tuned(about(1.2), about(0.9), about(0.9)),
            tuned(about(1.2), about(1.2), graphs_s={"model 0": 99.0, "model 1": 3.0}),
        ],
        REFUTED: [
            tuned(about(1.2), tuned_s={"model 0": 1.0}),
            tuned(about(0.9)),
            tuned(about(1.0, 0.001)),
        ],
        UNDECIDED: [tuned(about(1.0, 0.1)), tuned(about(1.2), about(0.9), WIDE, SHORT, SHORT)],
    },
}

WHERE: Callable[..., Tensor] = torch.where
TANH = torch.ops.aten.tanh.default


def _breaking(*arguments: Any) -> Tensor:
    torch._dynamo.graph_break()
    return WHERE(*arguments)


def _tanh_is_left(patch: pytest.MonkeyPatch) -> None:
    """Of one chain. What is generated is counted, and not compiled: g++ takes seconds a kernel."""
    name, chain = next(iter(fusion.CHAINS.items()))
    patch.setattr(fusion, "CHAINS", {name: chain})
    patch.setattr(AsyncCompile, "cpp_pybinding", lambda *_: lambda *arguments: None)
    handler = lowering.fallback_handler(TANH, add_to_fallback_set=False)
    patch.setitem(lowering.lowerings, TANH, handler)


def _is_print(function: object) -> bool:
    return function is print


CONFIG: dict[str, Any] = vars(dynamo)["_config"]
"""Defaults are patched: what a user sets lies in a context variable."""


WORLDS: Worlds = {
    "break-on-print": [
        World(
            "a print may wait for the end",
            REFUTED,
            replaced(DebuggingVariable, "is_reorderable_logging_function", staticmethod(_is_print)),
        )
    ],
    "break-on-item": [World("torch.where breaks", REFUTED, replaced(torch, "where", _breaking))],
    "recompile-dynamic": [
        World(
            "sizes never become dynamic",
            REFUTED,
            replaced(CONFIG["automatic_dynamic_shapes"], "default", False),
        ),
        World(
            "sizes are dynamic from the start",
            REFUTED,
            replaced(CONFIG["assume_static_by_default"], "default", False),
        ),
    ],
    "fused-pointwise": [World("tanh is left to torch", REFUTED, _tanh_is_left)],
}
