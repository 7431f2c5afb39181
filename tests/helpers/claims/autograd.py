"""Autograd: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from modescope.bench.tools.claims.chapters.autograd.versions import ALLOWED, NO_GRADIENT
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.helpers.claims.examples import Examples, World, Worlds, replaced, variants

SUMS = {"gradients": {"a * b + a": (4.0, 2.0)}, "expected": {"a * b + a": (4.0, 2.0)}}
VERSIONS = {
    "same_storage": {"x.data.add_(1)": True},
    "storage_is_same": True,
    "counters": {"x": 1},
    "gradient": None,
}
INFERENCE = {
    "version": "not tracked",
    "uses": {"w * y": "refused", "w + y": "refused"},
    "changes": {"y.add_(1)": "refused"},
}


def saved(*factors: float) -> dict[str, Any]:
    return {"factors": dict(enumerate(factors)), "tokens": {"4 times": 3.1, "8 times": 6.2}}


def entering(path: str) -> dict[str, Any]:
    return {"entered": {"aten::mm": path}, "seen": {"aten::mm": "AutogradCPU" in path}}


EXAMPLES: Examples = {
    "tape-accumulates": variants(SUMS, refuted=[{"gradients": {"a * b + a": (1.0, 2.0)}}]),
    "version-counter": variants(
        VERSIONS,
        undecided=[{"same_storage": {"x.data": False}, "storage_is_same": False}],
        refuted=[{"same_storage": {"x.data.add_(1)": False}, "gradient": 6.0}],
    ),
    "inference-tensors": variants(
        INFERENCE,
        refuted=[
            {"uses": {"w * y": "refused", "w + y": ALLOWED}},
            {"uses": {"w * y": "refused", "w + y": NO_GRADIENT}},
            {"version": ALLOWED},
            {"changes": {"y.add_(1)": ALLOWED}},
        ],
    ),
    "saved-dominate": variants(
        saved(4.0, 6.0, 8.0),
        holds_within_limits=[saved(1.3, 5.1), saved(5.1, 41.0)],
        refuted=[saved(1.3, 41.0), saved(3.9)],
    ),
    "autograd-above-autocast": variants(
        entering("AutogradCPU → AutocastCPU"),
        holds=[entering("AutogradCPU")],
        refuted=[entering("AutocastCPU → AutogradCPU")],
        undecided=[entering(""), entering("AutocastCPU")],
    ),
}

LAYER = torch.nn.TransformerEncoderLayer.forward
CAT, WHERE, ADD = torch.cat, torch.where, Tensor.__add__
SHARING = property(lambda x: x.detach())
COPYING = property(lambda x: x.detach().clone())


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


def _first_path(x: Tensor, y: Tensor) -> Tensor:
    return torch.add(x, y.detach())


def _computed_again(layer: Any, x: Tensor, *more: Any, **named: Any) -> Any:
    return checkpoint(LAYER, layer, x, *more, use_reentrant=False, **named)


def _strict_autograd(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tensor, "__add__", _refusing(ADD))
    patch.setattr(torch, "cat", _refusing(CAT))
    patch.setattr(torch, "where", _refusing(WHERE))


WORLDS: Worlds = {
    "tape-accumulates": [
        World("only the first path counts", REFUTED, replaced(Tensor, "__add__", _first_path))
    ],
    "version-counter": [
        World(".data shares the counter", WITHIN_LIMITS, replaced(Tensor, "data", SHARING)),
        World(".data is a copy", UNDECIDED, replaced(Tensor, "data", COPYING)),
    ],
    "inference-tensors": [
        World("no operator takes them beside a weight", WITHIN_LIMITS, _strict_autograd)
    ],
    "saved-dominate": [
        World(
            "layers are computed again in the backward",
            REFUTED,
            replaced(torch.nn.TransformerEncoderLayer, "forward", _computed_again),
        )
    ],
    "autograd-above-autocast": [
        World("autocast is below autograd", HOLDS, replaced(torch, "autocast", CastingBelow))
    ],
}
