"""torch.compile: made-up observations, and a compiler that does the opposite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo import config as dynamo
from torch._dynamo.variables.misc import DebuggingVariable
from torch._inductor import lowering
from torch._inductor.async_compile import AsyncCompile

from bench.claims.chapters import fusion
from bench.claims.chapters.autotuning import Tuned
from bench.claims.chapters.compile_speed import Gained
from bench.claims.chapters.fusion import Fused, Normed
from bench.claims.chapters.graph_breaks import Branched, Printed
from bench.claims.chapters.recompiles import Recompiled
from bench.claims.chapters.reduce_overhead import Replayed
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from bench.stats import Estimate
from tests.bench.claims.examples import Examples, World


def about(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value, value - half, value + half)


WIDE = Estimate(1.4, 1.1, 1.7)
SHORT = Estimate(1.6, None, None)

PRINTED = Printed({"print(x)": (2, 1)}, {"at the end": (2, 1)}, right={"print(x)": True})
ONCE, EACH = (1, 1, 1), (1, 2, 3)
BRANCHED = Branched(
    breaks={"if": 1, "for": 0},
    compiled={"if": ONCE, "for": EACH},
    switched_breaks={"if": 1, "for": 0},
    switched_compiled={"if": ONCE, "for": EACH},
    where_breaks=0,
    where_compiled=ONCE,
    cond_breaks=0,
    cond_compiled=ONCE,
)
RECOMPILED = Recompiled(
    default=(1, 2, 2, 2),
    smallest=(1, 2, 2, 2),
    columns=(1, 2, 2, 2),
    limit=8,
    static=(1, 2, 3, 4),
    static_called=(1, 2, 3, 4),
    dynamic=(1, 1, 1, 1),
    grads=(1, 2, 2, 2),
)
FUSED = Fused({"f": 3}, {"f": 1}, {"f": 0}, {}, complex_generated=1, complex_operators=0)
NORMED = Normed({"a": 8, "b": 8}, {"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1})
REPLAYED = Replayed(
    graphs={"a": 1, "b": 1},
    launches={"a": 0, "b": 0},
    broken_graphs=1,
    with_grad_graphs=1,
    gains={"a": about(1.5), "b": about(3.0)},
    large_gain=about(1.0),
)


def gained(
    training: Estimate, inference: Estimate, *more: tuple[Estimate, Estimate], first_s: float = 9.0
) -> Gained:
    pairs = [(training, inference), *more]
    sizes = [f"size {i}" for i in range(len(pairs))]
    return Gained(
        training={size: pair[0] for size, pair in zip(sizes, pairs, strict=True)},
        inference={size: pair[1] for size, pair in zip(sizes, pairs, strict=True)},
        first_s=dict.fromkeys(sizes, first_s),
        step_s=dict.fromkeys(sizes, 0.1),
    )


def tuned(*gains: Estimate, longest: bool = True) -> Tuned:
    models = [f"model {i}" for i in range(len(gains))]
    ratios = dict(zip(models, gains, strict=True))
    return Tuned(
        default_s=dict.fromkeys(models, 2.0),
        graphs_s=dict.fromkeys(models, 3.0),
        tuned_s=dict.fromkeys(models, 30.0 if longest else 1.0),
        over_default=ratios,
        over_graphs=ratios,
    )


EXAMPLES: Examples = {
    "compile-speedup": {
        HOLDS: [gained(about(1.5), about(1.8)), gained(about(1.5), about(2.5))],
        WITHIN_LIMITS: [gained(about(1.5), about(1.8), (about(1.1), about(1.3)))],
        REFUTED: [
            gained(about(1.1), about(1.3)),
            gained(about(2.5), about(3.0)),
            gained(about(1.5), about(1.2)),
            gained(WIDE, about(1.0)),
            gained(about(1.5), about(1.8), first_s=0.2),
        ],
        UNDECIDED: [
            gained(about(1.3), about(1.8)),
            gained(about(1.5), about(1.51)),
            gained(about(1.5), SHORT),
            gained(SHORT, about(1.8)),
            gained(about(1.1), about(1.3), (WIDE, about(1.8))),
        ],
    },
    "fused-pointwise": {
        HOLDS: [FUSED, replace(FUSED, launched={"f": 1})],
        WITHIN_LIMITS: [replace(FUSED, complex_generated=0, complex_operators=3)],
        REFUTED: [
            replace(FUSED, generated={"f": 2}),
            replace(FUSED, operators={"f": 1}),
            replace(FUSED, launched={"f": 3}),
        ],
    },
    "layernorm-kernels": {
        HOLDS: [NORMED, replace(NORMED, eager={"a": 5, "b": 9})],
        WITHIN_LIMITS: [replace(NORMED, compiled={"a": 1, "b": 2})],
        REFUTED: [
            replace(NORMED, eager={"a": 8, "b": 4}),
            replace(NORMED, compiled={"a": 2, "b": 2}),
        ],
    },
    "break-on-print": {
        HOLDS: [PRINTED],
        WITHIN_LIMITS: [replace(PRINTED, elsewhere={"in a loop": (0, 0)})],
        REFUTED: [
            replace(PRINTED, stated={"print(x)": (1, 0)}),
            replace(PRINTED, stated={"print(x)": (3, 2)}),
            replace(PRINTED, right={"print(x)": False}),
        ],
    },
    "break-on-item": {
        HOLDS: [BRANCHED],
        WITHIN_LIMITS: [replace(BRANCHED, switched_breaks={"if": 0, "for": 0})],
        REFUTED: [
            replace(BRANCHED, breaks={"if": 0, "for": 0}),
            replace(BRANCHED, where_breaks=1),
            replace(BRANCHED, where_compiled=EACH),
        ],
    },
    "recompile-dynamic": {
        HOLDS: [RECOMPILED],
        WITHIN_LIMITS: [
            replace(RECOMPILED, smallest=(1, 2, 3, 4)),
            replace(RECOMPILED, columns=(1, 2, 3, 3)),
            replace(RECOMPILED, static=(1, 2, 2, 2), static_called=(1, 2, 2, 2), limit=2),
            replace(RECOMPILED, grads=(1, 2, 3, 4)),
        ],
        REFUTED: [
            replace(RECOMPILED, default=(1, 1, 1, 1)),
            replace(RECOMPILED, default=(1, 2, 3, 4)),
            replace(RECOMPILED, static=(1, 1, 1, 1)),
            replace(RECOMPILED, static=(1, 2, 2, 2), static_called=(1, 2, 2, 2)),
            replace(RECOMPILED, static=(1, 2, 2, 3)),
            replace(RECOMPILED, grads=(1, 1, 1, 1)),
        ],
    },
    "reduce-overhead-graphs": {
        HOLDS: [REPLAYED],
        WITHIN_LIMITS: [
            replace(REPLAYED, gains={"a": about(1.5), "b": about(1.1)}),
            replace(REPLAYED, broken_graphs=2),
            replace(REPLAYED, with_grad_graphs=0),
        ],
        REFUTED: [
            replace(REPLAYED, graphs={"a": 1, "b": 0}),
            replace(REPLAYED, graphs={"a": 2, "b": 2}),
            replace(REPLAYED, gains={"a": about(1.1), "b": about(0.9)}),
        ],
        UNDECIDED: [
            replace(REPLAYED, gains={"a": about(1.5), "b": about(1.2)}),
            replace(REPLAYED, gains={"a": SHORT, "b": about(1.5)}),
        ],
    },
    "autotune-best": {
        HOLDS: [tuned(about(1.2)), tuned(about(1.2), about(1.0, 0.001)), tuned(about(1.2), WIDE)],
        WITHIN_LIMITS: [
            tuned(about(1.2), about(0.9), about(0.9)),
            replace(tuned(about(1.2), about(1.2)), graphs_s={"model 0": 99.0, "model 1": 3.0}),
        ],
        REFUTED: [tuned(about(1.2), longest=False), tuned(about(0.9)), tuned(about(1.0, 0.001))],
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


def _as_delivered(name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Another default: what a user sets lies in a context variable, which cannot be patched."""
    config: Any = dynamo
    return lambda patch: patch.setattr(config._config[name], "default", value)


def _prints_may_wait(patch: pytest.MonkeyPatch) -> None:
    asked = staticmethod(lambda function: function is print)
    patch.setattr(DebuggingVariable, "is_reorderable_logging_function", asked)


WORLDS = [
    World(
        "break-on-print",
        "a print may wait for the end",
        REFUTED,
        _prints_may_wait,
    ),
    World(
        "break-on-item",
        "torch.where breaks",
        REFUTED,
        lambda patch: patch.setattr(torch, "where", _breaking),
    ),
    World(
        "recompile-dynamic",
        "sizes never become dynamic",
        REFUTED,
        _as_delivered("automatic_dynamic_shapes", False),
    ),
    World(
        "recompile-dynamic",
        "sizes are dynamic from the start",
        REFUTED,
        _as_delivered("assume_static_by_default", False),
    ),
    World("fused-pointwise", "tanh is left to torch", REFUTED, _tanh_is_left),
]
