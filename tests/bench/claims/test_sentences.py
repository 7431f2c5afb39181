"""What rules say: each part of a sentence comes from the field that it speaks of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.claims.chapters.cpp import CUSTOM_OP, LIBRARY
from bench.claims.chapters.inference_tensors import ALLOWED
from bench.claims.table import CLAIMS
from tests.bench.claims.in_autograd import INFERENCE, ORDER
from tests.bench.claims.in_compile import PRINTED, RECOMPILED, about, gained
from tests.bench.claims.in_custom_ops import OPAQUE
from tests.bench.claims.in_dispatch import CHEAP, DEAR, HOOKS, OWN, RESOLVED, marks
from tests.bench.claims.in_views import KEPT, ON_CUDA

CAST = {"aten::mm": True}
ABOVE = {"aten::mm": "AutocastCPU → AutogradCPU"}
FAST = (3.0, 2.9, 3.1)


@pytest.mark.parametrize(
    ("id", "seen", "because"),
    [
        (
            "recompile-dynamic",
            RECOMPILED,
            "a second size compiled once more and others did not; under dynamic=False each of the "
            "first 4 sizes did, and so did the first call under no_grad",
        ),
        (
            "recompile-dynamic",
            replace(RECOMPILED, static=(1, 2, 2, 3)),
            "dynamic=False compiled nothing for size 3, below the limit of 8",
        ),
        (
            "compile-speedup",
            gained(about(1.1), about(1.3), (about(1.1), about(1.3))),
            "at none of 2 sizes (size 0; size 1) is training 30 to 100 % faster and inference more "
            "than that",
        ),
        (
            "profiler-launch-bound",
            marks(FAST, (1.1, 1.05, 1.15)),
            "not marked: the interval has 1.1 inside, or there is none: large 0 1.10 times as fast",
        ),
        (
            "autograd-above-autocast",
            replace(ORDER, entered=ABOVE),
            "autocast's kernel runs before autograd's; what mm saves for the backward is "
            "torch.float32",
        ),
        (
            "autograd-above-autocast",
            replace(ORDER, cast_recorded=CAST),
            "autograd's tape has the cast; what mm saves for the backward is torch.float32",
        ),
        (
            "autograd-above-autocast",
            replace(ORDER, entered=ABOVE, cast_recorded=CAST),
            "autocast's kernel runs before autograd's and autograd's tape has the cast; what mm "
            "saves for the backward is torch.float32",
        ),
        (
            "inference-tensors",
            replace(INFERENCE, uses={"w * y": "no", "y * w": "no", "w / y": "never", "w": ALLOWED}),
            "in autograd are refused: w * y, y * w (no); w / y (never)",
        ),
        (
            "inference-tensors",
            replace(INFERENCE, uses={"w * y": ALLOWED}),
            "in autograd are refused: none",
        ),
        (
            "view-keeps-storage",
            replace(KEPT, saved_slice=20),
            "a slice of 4 B kept all 4,000 B, and torch.save of it wrote 20 B; a clone of it kept "
            "4 B",
        ),
        (
            "custom-op-opaque",
            replace(OPAQUE, kernels=3),
            "not two kernels around one call of the op",
        ),
        (
            "empty-strided-cuda",
            replace(ON_CUDA, kernel=False),
            "the call works, and the dispatcher has no CUDA kernel for aten::empty_strided",
        ),
        (
            "empty-strided-cuda",
            replace(ON_CUDA, strides=(3, 1)),
            "the call returned a tensor on cuda with strides (3, 1)",
        ),
    ],
)
def test_a_verdict_says_what_was_seen(id: str, seen: Any, because: str) -> None:
    assert CLAIMS[id].decide(seen).because == because


@pytest.mark.parametrize(
    ("id", "seen", "example"),
    [
        (
            "cpp-op",
            replace(OWN, by_tensor={"CPU": True, "meta": False}),
            "with x on meta, scale(x, 3.0) ran another kernel than that for it",
        ),
        (
            "cpp-op",
            replace(OWN, refused=None),
            "scale(x, 3.0) was not refused for a tensor that no kernel is for",
        ),
        (
            "dispatch-mode-sees",
            replace(HOOKS, resolved=RESOLVED | {"w.T": False}),
            "w.T: aten.permute.default",
        ),
        ("break-on-print", replace(PRINTED, right={"print(x)": False}), "print(x)"),
        (
            "autograd-above-autocast",
            replace(ORDER, entered=ABOVE),
            "aten::mm went through AutocastCPU → AutogradCPU, and its history does not have the "
            "cast",
        ),
    ],
)
def test_a_counter_example_names_what_was_seen(id: str, seen: Any, example: str) -> None:
    assert CLAIMS[id].decide(seen).counter_example == example


@pytest.mark.parametrize(
    ("id", "seen", "limits"),
    [
        (
            "cpp-op",
            replace(OWN, ratio={CUSTOM_OP: CHEAP, LIBRARY: DEAR}),
            [f"{LIBRARY} costs no more than from C++"],
        ),
        (
            "profiler-launch-bound",
            marks(FAST, (1.3, 1.2, 1.4), (1.1, 1.05, 1.15)),
            [
                "sped up without the mark, too: large 0 1.30 times as fast",
                "the interval has 1.1 inside, or there is none: large 1 1.10 times as fast",
            ],
        ),
        (
            "recompile-dynamic",
            replace(RECOMPILED, static=(1, 2, 2), static_called=(1, 2, 2), limit=2),
            [
                "dynamic=False compiled 2 times (recompile_limit 2), then ran every other size in "
                "Python without an error"
            ],
        ),
    ],
)
def test_a_limit_is_a_clause(id: str, seen: Any, limits: list[str]) -> None:
    assert list(CLAIMS[id].decide(seen).limits) == limits
