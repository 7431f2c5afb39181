"""Strides without a copy: an exercise, and channels_last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.claim import (
    Verdict,
    claim,
    holds,
    refuted,
    within_limits,
)
from bench.devices import Hardware

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Permuted:
    """Of `a.permute(2, 0, 1)`, a being contiguous."""

    shape: Annotated[Sizes, "its shape"]
    strides: Annotated[Sizes, "its strides"]
    offset: Annotated[int, "its storage offset"]
    contiguous: Annotated[bool, "is contiguous"]


STATED = Permuted(shape=(5, 3, 4), strides=(1, 20, 5), offset=0, contiguous=False)


def as_the_answer_says(seen: Permuted) -> Verdict:
    """Holds if shape, strides, offset and contiguity are those of the exercise's answer.

    They are (5, 3, 4), (1, 20, 5), 0 and no; else refuted.
    """
    told = f"strides {seen.strides}, offset {seen.offset}, contiguous: {seen.contiguous}"
    return holds(told) if seen == STATED else refuted("the answer is another one", told)


@claim(
    id="permute-exercise",
    statement="the strides of `permute(2, 0, 1)` on (3, 4, 5) are (1, 20, 5), offset 0, not "
    "contiguous",
    source=("003 Exercise 1",),
    needs=("cpu",),
    decide=as_the_answer_says,
    snippet="""
        import torch

        b = torch.empty(3, 4, 5).permute(2, 0, 1)
        print(tuple(b.shape), b.stride(), b.storage_offset(), b.is_contiguous())
    """,
)
def permute_exercise(device: Hardware) -> Permuted:
    """Shape, strides, offset and contiguity of the permuted tensor."""
    b = torch.empty(3, 4, 5).permute(2, 0, 1)
    return Permuted(tuple(b.shape), b.stride(), int(b.storage_offset()), b.is_contiguous())


ORDINARY = ((2, 3, 4, 5), (1, 3, 4, 5), (8, 64, 7, 7))
DEGENERATE = {"one channel": (2, 1, 4, 5), "1 × 1 pixel": (2, 3, 1, 1)}


@dataclass(frozen=True)
class ChannelsLast:
    """What `.to(memory_format=torch.channels_last)` makes of contiguous tensors, by their sizes."""

    same_shape: Annotated[Mapping[Sizes, bool], "shape and elements stay, of"]
    as_stated: Annotated[Mapping[Sizes, bool], "strides become (CHW, 1, WC, C), of"]
    contiguous: Annotated[Mapping[Sizes, bool], "is_contiguous() afterwards, of"]
    degenerate: Annotated[Mapping[str, bool], "is_contiguous() afterwards, of"]


def strides_alone_change(seen: ChannelsLast) -> Verdict:
    """Refuted if for a usual size the shape changes or is_contiguous() stays true.

    Refuted, too, if the strides are not those of NHWC; within limits if is_contiguous() stays true
    only for tensors of one channel or of 1 × 1; else holds.
    """
    wrong = {
        "the shape or the elements changed": [s for s, same in seen.same_shape.items() if not same],
        "the strides are not those of NHWC": [
            s for s, as_is in seen.as_stated.items() if not as_is
        ],
        "is_contiguous() is still true": [s for s, still in seen.contiguous.items() if still],
    }
    for what, sizes in wrong.items():
        if sizes:
            return refuted(what, f"for a tensor of {sizes[0]} {what}")
    told = (
        f"for {len(seen.contiguous)} usual sizes the elements stayed, the strides became those of "
        "NHWC, and is_contiguous() was false"
    )
    limits = [
        f"tensors of {what} are contiguous in both formats"
        for what, still in seen.degenerate.items()
        if still
    ]
    return within_limits(told, *limits) if limits else holds(told)


@claim(
    id="channels-last",
    statement="channels_last changes strides, not shape, and `is_contiguous()` is then false",
    source=("003 §3.4",),
    needs=("cpu",),
    decide=strides_alone_change,
    snippet="""
        import torch

        for sizes in ((2, 3, 4, 5), (2, 1, 4, 5)):
            x = torch.empty(sizes)
            y = x.to(memory_format=torch.channels_last)
            print(tuple(y.shape), x.stride(), y.stride(), y.is_contiguous())
    """,
)
def channels_last(device: Hardware) -> ChannelsLast:
    """Shape, strides and is_contiguous() of tensors turned to channels_last.

    Of usual sizes, of one channel, and of 1 × 1 pixel.
    """
    pairs = {sizes: _turned(sizes) for sizes in ORDINARY}
    return ChannelsLast(
        same_shape={
            sizes: x.shape == y.shape and torch.equal(x, y) for sizes, (x, y) in pairs.items()
        },
        as_stated={sizes: y.stride() == _nhwc(sizes) for sizes, (_, y) in pairs.items()},
        contiguous={sizes: y.is_contiguous() for sizes, (_, y) in pairs.items()},
        degenerate={what: _turned(sizes)[1].is_contiguous() for what, sizes in DEGENERATE.items()},
    )


def _turned(sizes: Sizes) -> tuple[Tensor, Tensor]:
    x = torch.rand(sizes)
    return x, x.to(memory_format=torch.channels_last)


def _nhwc(sizes: Sizes) -> Sizes:
    _, c, h, w = sizes
    return (c * h * w, 1, w * c, c)
