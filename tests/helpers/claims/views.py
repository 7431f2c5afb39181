"""Views and allocation: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

import mmap
from typing import Any

import torch
from torch import Tensor

from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, UNDECIDED
from tests.helpers.claims.examples import Examples, World, Worlds, replaced, variants

VIEWED = {"others": 100, "others_accepted": 0, "example": ""}
RESHAPED = {"others": 100, "others_copied": 100, "unlike_view": 20, "example": ""}
REFUSED = {
    "error": "not available for CUDA",
    "refused": True,
    "where": None,
    "strides": None,
    "kernel": False,
}
ON_CUDA = {"error": None, "refused": False, "where": "cuda", "strides": (2, 1), "kernel": True}


def slower(*intervals: tuple[float, float | None, float | None]) -> dict[str, Any]:
    return {"factors": {f"op {i}": Estimate(*each) for i, each in enumerate(intervals)}}


EXAMPLES: Examples = {
    "view-contiguous": variants(
        VIEWED, refuted=[{"others_accepted": 1, "example": "x.T.view(6, 2, 2)"}]
    ),
    "contiguous-copies": variants({"row": 4}, holds_within_limits=[{"row": 0}]),
    "reshape-copies": variants(
        RESHAPED, refuted=[{"others_copied": 80, "unlike_view": 0, "example": "x.T"}]
    ),
    "repeat-copies": variants({"repeated": 1.0}, refuted=[{"repeated": {"x.repeat(1)": 0.0}}]),
    "empty-strided-cpu": variants(
        {"leftovers": 0.9, "filled": 0.0},
        holds_within_limits=[{"filled": 1.0}],
        refuted=[{"leftovers": 0.0}],
        undecided=[{"reused": False, "leftovers": None}],
    ),
    "empty-strided-cuda": variants(
        REFUSED,
        refuted=[ON_CUDA, ON_CUDA | {"kernel": False}],
        undecided=[
            {"error": "CUDA out of memory", "refused": False},
            ON_CUDA | {"where": "cpu"},
            ON_CUDA | {"strides": (3, 1)},
        ],
    ),
    "strided-kernel-slow": variants(
        slower((7.0, 6.9, 7.1)),
        holds=[slower((5.5, 5.0, 6.0), (9.5, 9.0, 10.0))],
        holds_within_limits=[slower((7.0, 6.9, 7.1), (1.0, 0.99, 1.01))],
        refuted=[slower((1.0, 0.99, 1.01)), slower((1.0, 0.9, 1.1), (12.0, 11.0, 13.0))],
        undecided=[slower((5.0, 4.9, 5.1)), slower((7.0, None, None))],
    ),
}

VIEW, EXPAND, CONTIGUOUS = Tensor.view, Tensor.expand, Tensor.contiguous
EMPTY = torch.empty_strided


def _only_contiguous(x: Tensor, *how: Any) -> Tensor:
    if not x.is_contiguous():
        raise RuntimeError("not contiguous")
    return VIEW(x, *how)


def _converted(x: Tensor, *how: Any) -> Tensor:
    return x.abs().to(how[0]) if isinstance(how[0], torch.dtype) else VIEW(x, *how)


def _zeros(*how: Any, **more: Any) -> Tensor:
    return EMPTY(*how, **more).zero_()


def _from_the_system(sizes: Any, strides: Any) -> Tensor:
    """In pages that no tensor had before, which the system fills with zeros."""
    pages = torch.frombuffer(mmap.mmap(-1, 2**16), dtype=torch.float32)
    return pages.as_strided(sizes, strides)


def _rows(x: Tensor, rows: slice) -> Tensor:
    return torch.narrow_copy(x, 0, 0, rows.stop)


def _reshaped(x: Tensor, shape: Any) -> Tensor:
    copied = torch.clone(x, memory_format=torch.contiguous_format)
    return VIEW(x if x.is_contiguous() else copied, shape)


def _expanded(x: Tensor, *sizes: int) -> Tensor:
    return torch.clone(EXPAND(x, *sizes))


def _repeated(x: Tensor, *times: int) -> Tensor:
    return x.tile(times) if max(times) > 1 else x


def _permuted(x: Tensor, *order: int) -> Tensor:
    return CONTIGUOUS(torch.permute(x, order))


WORLDS: Worlds = {
    "view-contiguous": [
        World("it asks for contiguous tensors", HOLDS, replaced(Tensor, "view", _only_contiguous))
    ],
    "view-no-alloc": [
        World(
            "narrow copies", REFUTED, replaced(Tensor, "narrow", lambda *x: torch.narrow_copy(*x))
        )
    ],
    "view-dtype": [
        World("view converts values", REFUTED, replaced(Tensor, "view", _converted)),
    ],
    "view-keeps-storage": [
        World("a slice is a copy", REFUTED, replaced(Tensor, "__getitem__", _rows)),
    ],
    "contiguous-copies": [
        World("contiguous does nothing", REFUTED, replaced(Tensor, "contiguous", lambda x: x)),
        World("contiguous copies", REFUTED, replaced(Tensor, "contiguous", lambda x: x.clone())),
    ],
    "reshape-copies": [
        World("it copies all that is not contiguous", HOLDS, replaced(Tensor, "reshape", _reshaped))
    ],
    "repeat-copies": [
        World("expand copies", REFUTED, replaced(Tensor, "expand", _expanded)),
        World("repeat of nothing is the tensor", REFUTED, replaced(Tensor, "repeat", _repeated)),
    ],
    "permute-exercise": [
        World("permute copies", REFUTED, replaced(Tensor, "permute", _permuted)),
    ],
    "channels-last": [
        World("all is contiguous", REFUTED, replaced(Tensor, "is_contiguous", lambda x: True)),
    ],
    "empty-strided-cpu": [
        World("memory is zeroed", REFUTED, replaced(torch, "empty_strided", _zeros)),
        World(
            "freed memory is not used again",
            UNDECIDED,
            replaced(torch, "empty_strided", _from_the_system),
        ),
    ],
}
