"""Autograd: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from bench.claims.chapters.autocast_order import Order
from bench.claims.chapters.inference_tensors import ALLOWED, Inference
from bench.claims.chapters.saved import Saved
from bench.claims.chapters.tape import Sums
from bench.claims.chapters.versions import Versions
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.bench.claims.examples import Examples, World

SUMS = Sums({"a * b + a": (4.0, 2.0)}, {"a * b + a": (4.0, 2.0)}, 8.0, "AddBackward0", (4.0,))
VERSIONS = Versions(
    through_x={"x.add_(1)": True},
    same_storage={"x.data.add_(1)": True},
    outside={"x.numpy()[0] = 5": True},
    storage_is_same=True,
    counters={"x": 1},
    gradient=None,
)
INFERENCE = Inference(
    version="not tracked",
    uses={"w * y": "refused", "w + y": "refused"},
    changes={"y.add_(1)": "refused"},
    views={"x.view(-1)": True},
)
ORDER = Order(
    walked={"aten::mm": "AutogradCPU → AutocastCPU → CPU"},
    entered={"aten::mm": "AutogradCPU → AutocastCPU"},
    lowered={"aten::mm": True},
    cast_recorded={"aten::mm": False},
    saved_in="torch.float32",
)


def saved(*factors: float) -> Saved:
    tokens = {"4 times": 3.1, "8 times": 6.2}
    return Saved({f"{i} × 128 tokens": each for i, each in enumerate(factors)}, tokens)


EXAMPLES: Examples = {
    "tape-accumulates": {
        HOLDS: [SUMS, replace(SUMS, hooked=(1.0, 3.0))],
        REFUTED: [replace(SUMS, gradients={"a * b + a": (1.0, 2.0)})],
    },
    "version-counter": {
        HOLDS: [VERSIONS, replace(VERSIONS, same_storage={"x.data": False}, storage_is_same=False)],
        WITHIN_LIMITS: [replace(VERSIONS, outside={"x.numpy()[0] = 5": False})],
        REFUTED: [
            replace(VERSIONS, through_x={"x.add_(1)": False}),
            replace(VERSIONS, same_storage={"x.data.add_(1)": False}, gradient=6.0),
        ],
    },
    "inference-tensors": {
        HOLDS: [INFERENCE],
        WITHIN_LIMITS: [replace(INFERENCE, views={"x.view(-1)": False})],
        REFUTED: [
            replace(INFERENCE, uses={"w * y": "refused", "w + y": ALLOWED}),
            replace(INFERENCE, uses={"w * y": ALLOWED}),
            replace(INFERENCE, version=ALLOWED),
            replace(INFERENCE, changes={"y.add_(1)": ALLOWED}),
        ],
    },
    "saved-dominate": {
        HOLDS: [saved(4.0, 6.0, 8.0)],
        WITHIN_LIMITS: [saved(1.3, 5.1), saved(5.1, 41.0)],
        REFUTED: [saved(1.3, 41.0), saved(3.9)],
    },
    "autograd-above-autocast": {
        HOLDS: [ORDER, replace(ORDER, entered={"aten::mm": "AutogradCPU"})],
        REFUTED: [
            replace(ORDER, entered={"aten::mm": "AutocastCPU → AutogradCPU"}),
            replace(ORDER, cast_recorded={"aten::mm": True}),
        ],
        UNDECIDED: [
            replace(ORDER, lowered={"aten::mm": False}),
            replace(ORDER, entered={"aten::mm": ""}),
            replace(ORDER, entered={"aten::mm": "AutocastCPU"}),
        ],
    },
}

LAYER = torch.nn.TransformerEncoderLayer.forward
CAT, WHERE, ADD = torch.cat, torch.where, Tensor.__add__


class CastingBelow(TorchDispatchMode):
    """An autocast that stands below autograd."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        low = func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm)
        cast = [a.to(self.dtype) if low and isinstance(a, Tensor) else a for a in args]
        return func(*cast, **(kwargs or {}))


def _refusing(function: Any) -> Any:
    def strict(*operands: Any) -> Any:
        flat = [
            each for part in operands for each in (part if isinstance(part, tuple) else (part,))
        ]
        if any(isinstance(each, Tensor) and each.is_inference() for each in flat):
            raise RuntimeError("no inference tensors here")
        return function(*operands)

    return strict


def _strict_autograd(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tensor, "__add__", _refusing(ADD))
    patch.setattr(torch, "cat", _refusing(CAT))
    patch.setattr(torch, "where", _refusing(WHERE))


WORLDS = [
    World(
        "tape-accumulates",
        "only the first path counts",
        REFUTED,
        lambda patch: patch.setattr(Tensor, "__add__", lambda x, y: torch.add(x, y.detach())),
    ),
    World(
        "version-counter",
        ".data shares the counter",
        WITHIN_LIMITS,
        lambda patch: patch.setattr(Tensor, "data", property(lambda x: x.detach())),
    ),
    World(
        "inference-tensors",
        "no operator takes them beside a weight",
        WITHIN_LIMITS,
        _strict_autograd,
    ),
    World(
        "saved-dominate",
        "layers are computed again in the backward",
        REFUTED,
        lambda patch: patch.setattr(
            torch.nn.TransformerEncoderLayer,
            "forward",
            lambda layer, x, *more, **named: checkpoint(
                LAYER, layer, x, *more, use_reentrant=False, **named
            ),
        ),
    ),
    World(
        "autograd-above-autocast",
        "autocast stands below autograd",
        HOLDS,
        lambda patch: patch.setattr(torch, "autocast", CastingBelow),
    ),
]
