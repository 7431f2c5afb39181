"""Views and allocation: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.claims.chapters.copies import Copied, Repeated, Reshaped
from bench.claims.chapters.empty_strided import OnCuda, Raw
from bench.claims.chapters.storage import Kept, Reinterpreted
from bench.claims.chapters.strided_kernels import Slower
from bench.claims.chapters.strides import STATED, ChannelsLast
from bench.claims.chapters.views import Taken, Viewed
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from bench.stats import Estimate
from tests.bench.claims.examples import Examples, World

VIEWED = Viewed(60, 60, 100, 0, example=None, refusal="no")
TAKEN = Taken({"x.T": 0}, {"x.T": 0}, {"sparse": 0}, object_bytes=500.0)
READ = Reinterpreted({"float32 to int32": True}, {}, {"a transpose": True})
KEPT = Kept(4000, 4, by_slice=4000, by_clone=4, saved_slice=5000, saved_clone=1000)
COPIED = Copied(4096, 4096, scratch=0, contiguous=0, same_memory=True, row=4)
RESHAPED = Reshaped(60, 0, 100, 100, unlike_view=20, example=None)
REPEATED = Repeated({"x.repeat(2)": 1.0}, {"x.expand(2)": 0})
SIZES = (2, 3, 4, 5)
LAST = ChannelsLast({SIZES: True}, {SIZES: True}, {SIZES: False}, {"one channel": False})
RAW = Raw({"padded": (8, 1)}, {"padded": True}, {"padded": 96}, 0.9, "0.0", filled=0.0)
ON_CUDA = OnCuda(None, False, "cuda", (2, 1), kernel=True)


def slower(*intervals: tuple[float, float | None, float | None]) -> Slower:
    return Slower({f"op {i}": Estimate(*each) for i, each in enumerate(intervals)})


EXAMPLES: Examples = {
    "view-contiguous": {
        HOLDS: [VIEWED],
        REFUTED: [replace(VIEWED, others_accepted=1, example="x.T.view(6, 2, 2)")],
    },
    "view-no-alloc": {
        HOLDS: [TAKEN, replace(TAKEN, object_bytes=None)],
        WITHIN_LIMITS: [replace(TAKEN, other_layouts={"sparse": 8})],
        REFUTED: [replace(TAKEN, dense={"x.T": 8}), replace(TAKEN, with_grad={"x.T": 8})],
    },
    "view-dtype": {
        HOLDS: [READ],
        WITHIN_LIMITS: [replace(READ, refused={"odd": "no"})],
        REFUTED: [
            replace(READ, right={"float32 to int32": False}),
            replace(READ, accepted={"a transpose": False}, refused={"odd": "no"}),
        ],
    },
    "view-keeps-storage": {HOLDS: [KEPT], REFUTED: [replace(KEPT, by_slice=4)]},
    "contiguous-copies": {
        HOLDS: [COPIED],
        WITHIN_LIMITS: [replace(COPIED, row=0)],
        REFUTED: [
            replace(COPIED, transposed=0),
            replace(COPIED, transposed=2048, row=0),
            replace(COPIED, contiguous=4096),
            replace(COPIED, same_memory=False),
        ],
    },
    "reshape-copies": {
        HOLDS: [RESHAPED],
        REFUTED: [replace(RESHAPED, others_copied=80, unlike_view=0, example="x.T")],
    },
    "repeat-copies": {
        HOLDS: [REPEATED],
        REFUTED: [
            replace(REPEATED, repeated={"x.repeat(1)": 0.0}),
            replace(REPEATED, expanded={"x.expand(2)": 8}),
        ],
    },
    "permute-exercise": {
        HOLDS: [STATED],
        REFUTED: [
            replace(STATED, strides=(12, 4, 1)),
            replace(STATED, offset=1),
            replace(STATED, contiguous=True),
        ],
    },
    "channels-last": {
        HOLDS: [LAST],
        WITHIN_LIMITS: [replace(LAST, degenerate={"one channel": True})],
        REFUTED: [
            replace(LAST, same_shape={SIZES: False}),
            replace(LAST, as_stated={SIZES: False}),
            replace(LAST, contiguous={SIZES: True}),
        ],
    },
    "empty-strided-cpu": {
        HOLDS: [RAW],
        WITHIN_LIMITS: [replace(RAW, filled=1.0)],
        REFUTED: [replace(RAW, leftovers=0.0), replace(RAW, as_asked={"padded": False})],
    },
    "empty-strided-cuda": {
        HOLDS: [OnCuda("not available for CUDA", True, None, None, kernel=False)],
        REFUTED: [ON_CUDA, replace(ON_CUDA, kernel=False)],
        UNDECIDED: [
            OnCuda("CUDA out of memory", False, None, None, kernel=True),
            replace(ON_CUDA, where="cpu"),
            replace(ON_CUDA, strides=(3, 1)),
        ],
    },
    "strided-kernel-slow": {
        HOLDS: [slower((7.0, 6.9, 7.1)), slower((5.5, 5.0, 6.0), (9.5, 9.0, 10.0))],
        WITHIN_LIMITS: [
            slower((7.0, 6.9, 7.1), (1.0, 0.99, 1.01)),
            slower((5.0, 4.9, 5.1), (7.0, 6.9, 7.1), (1.0, 0.99, 1.01)),
            slower((7.0, None, None), (7.0, 6.9, 7.1), (1.0, 0.99, 1.01)),
        ],
        REFUTED: [slower((1.0, 0.99, 1.01)), slower((1.0, 0.9, 1.1), (12.0, 11.0, 13.0))],
        UNDECIDED: [
            slower((5.0, 4.9, 5.1)),
            slower((7.0, None, None)),
            slower((1.0, 0.99, 1.01), (5.0, 4.9, 5.1)),
        ],
    },
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


def _in_place_of(name: str, method: Any) -> Any:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Tensor, name, method)

    return plant


WORLDS = [
    World(
        "view-contiguous",
        "view asks for contiguous tensors",
        HOLDS,
        _in_place_of("view", _only_contiguous),
    ),
    World(
        "view-no-alloc",
        "narrow copies",
        REFUTED,
        _in_place_of("narrow", lambda x, *how: torch.narrow_copy(x, *how)),
    ),
    World("view-dtype", "view converts values", REFUTED, _in_place_of("view", _converted)),
    World(
        "view-keeps-storage",
        "a slice is a copy",
        REFUTED,
        _in_place_of("__getitem__", lambda x, rows: torch.narrow_copy(x, 0, 0, rows.stop)),
    ),
    World(
        "contiguous-copies",
        "contiguous does nothing",
        REFUTED,
        _in_place_of("contiguous", lambda x: x),
    ),
    World(
        "contiguous-copies",
        "contiguous always copies",
        REFUTED,
        _in_place_of("contiguous", lambda x: torch.clone(x)),
    ),
    World(
        "reshape-copies",
        "reshape copies all that is not contiguous",
        HOLDS,
        _in_place_of(
            "reshape",
            lambda x, shape: VIEW(
                x if x.is_contiguous() else torch.clone(x, memory_format=torch.contiguous_format),
                shape,
            ),
        ),
    ),
    World(
        "repeat-copies",
        "expand copies",
        REFUTED,
        _in_place_of("expand", lambda x, *sizes: torch.clone(EXPAND(x, *sizes))),
    ),
    World(
        "repeat-copies",
        "repeat of nothing is the tensor itself",
        REFUTED,
        _in_place_of("repeat", lambda x, *times: x.tile(times) if max(times) > 1 else x),
    ),
    World(
        "permute-exercise",
        "permute copies",
        REFUTED,
        _in_place_of("permute", lambda x, *order: CONTIGUOUS(torch.permute(x, order))),
    ),
    World(
        "channels-last",
        "every layout counts as contiguous",
        REFUTED,
        _in_place_of("is_contiguous", lambda x: True),
    ),
    World(
        "empty-strided-cpu",
        "memory is zeroed",
        REFUTED,
        lambda patch: patch.setattr(torch, "empty_strided", _zeros),
    ),
]
