"""What a view shares with its tensor, and its strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from modescope.bench.tools.claims import lab

RETYPED = (
    *("float32 to int32", "float32 to uint8", "float16 to int32", "float16 to float64"),
    *("int64 to float16", "complex64 to float32", "uint8 to int64"),
)
DOUBTFUL = lab.functions(
    "",
    {
        "a last dimension with a stride other than 1, to another size": (
            "torch.ones(4, 6).T.view(torch.float64)"
        ),
        "a last dimension that the new size does not divide": "torch.ones(4, 3).view(torch.double)",
        "an offset that the new size does not divide": "torch.ones(9)[1:].view(torch.double)",
        "a tensor without dimensions, to another size": "torch.tensor(1.0).view(torch.uint8)",
    },
)


@lab.claim(
    "`.view(dtype)` reinterprets bytes and rescales the last dimension",
    "000 .view; 003 §2.2",
    figures={
        "right": lab.must("bytes are reinterpreted as by numpy,", True),
        "refused": lab.should("refused:", "no", "every view to another type is accepted"),
        "accepted": lab.must("a strided tensor is accepted, too,", True),
    },
    snippet="""
        import torch

        x = torch.ones(2, 8, dtype=torch.float16)
        y = x.view(torch.int32)
        print(y.shape, hex(y[0, 0].item()), y.data_ptr() == x.data_ptr())
        try:
            x.T.view(torch.int32)
        except RuntimeError as error:
            print(error)
    """,
)
def view_dtype(device: lab.Hardware) -> lab.Values:
    """`.view` to types of the same, a smaller and a larger size, compared with numpy.

    Then the same of tensors whose sizes or strides do not fit.
    """
    bits = np.random.default_rng(0).integers(0, 256, size=4 * 16, dtype=np.uint8).reshape(4, 16)
    yield {pair: _as_numpy(bits, *pair.split(" to ")) for pair in RETYPED}
    yield {what: lab.refusal(call) or "no" for what, call in DOUBTFUL.items()}
    transposed = torch.ones(4, 6).T.view(torch.int32)
    yield {"float32 to int32 of a transpose": bool((transposed == 0x3F800000).all())}


def _as_numpy(bits: np.ndarray[Any, Any], old: str, new: str) -> bool:
    array = bits.view(old)
    tensor, expected = torch.from_numpy(array), array.view(new)
    result = tensor.view(getattr(torch, new))
    found = result.numpy()
    same = found.dtype == expected.dtype and found.shape == expected.shape
    return same and found.tobytes() == expected.tobytes() and tensor.data_ptr() == result.data_ptr()


WHOLE = 4 * 1000 * 1000  # bytes


@lab.claim(
    "a small slice keeps the whole storage alive",
    "002 Why this decomposition matters",
    figures={
        "whole": "the whole tensor [B]",
        "part": "the slice's own elements [B]",
        "by_slice": lab.must(
            "held when only the slice is left [B]", WHOLE, "the slice alone keeps the whole tensor"
        ),
    },
    snippet="""
        import torch
        from modescope.bench.allocations import watch_allocations

        with watch_allocations("only a slice is left", device="cpu") as kept:
            part = torch.empty(1000, 1000)[:1]
        with watch_allocations("only a clone is left", device="cpu") as cloned:
            copy = torch.empty(1000, 1000)[:1].clone()
        print(part.nbytes, kept.left_bytes, cloned.left_bytes)
    """,
)
def view_keeps_storage(device: lab.Hardware) -> lab.Values:
    """Bytes still held when all that is left of a tensor of 1000 × 1000 is its first row."""
    part, held = lab.watched(lambda: torch.ones(1000, 1000)[:1], device)
    return torch.ones(1000, 1000).nbytes, part.nbytes, held.left_bytes


@lab.claim(
    "the strides of `permute(2, 0, 1)` on (3, 4, 5) are (1, 20, 5), offset 0, not contiguous",
    "003 Exercise 1",
    figures={
        "shape": lab.must("its shape", (5, 3, 4)),
        "strides": lab.must("its strides", (1, 20, 5)),
        "offset": lab.must("its storage offset", 0),
        "not_contiguous": lab.must("it is not contiguous", True),
    },
    snippet="""
        import torch

        b = torch.empty(3, 4, 5).permute(2, 0, 1)
        print(tuple(b.shape), b.stride(), b.storage_offset(), b.is_contiguous())
    """,
)
def permute_exercise(device: lab.Hardware) -> lab.Values:
    """Shape, strides, offset and contiguity of the permuted tensor."""
    b = torch.empty(3, 4, 5).permute(2, 0, 1)
    return tuple(b.shape), b.stride(), int(b.storage_offset()), not b.is_contiguous()


ORDINARY = ((2, 3, 4, 5), (1, 3, 4, 5), (8, 64, 7, 7))
DEGENERATE = {"one channel": (2, 1, 4, 5), "1 × 1 pixel": (2, 3, 1, 1)}


@lab.claim(
    "channels_last changes strides, not shape, and `is_contiguous()` is then false",
    "003 §3.4",
    figures={
        "same_shape": lab.must("shape and elements stay, of", True, "shape and elements stay"),
        "as_stated": lab.must(
            "strides become those of the order N, H, W, C, of",
            True,
            "strides become those of the order N, H, W, C",
        ),
        "not_contiguous": lab.must(
            "is_contiguous() is false afterwards, of", True, "is_contiguous() is false"
        ),
        "degenerate": lab.should(
            "is_contiguous() is false afterwards, of",
            True,
            "is_contiguous() is false for one channel or pixel, too",
        ),
    },
    snippet="""
        import torch

        for sizes in ((2, 3, 4, 5), (2, 1, 4, 5)):
            x = torch.empty(sizes)
            y = x.to(memory_format=torch.channels_last)
            print(tuple(y.shape), x.stride(), y.stride(), y.is_contiguous())
    """,
)
def channels_last(device: lab.Hardware) -> lab.Values:
    """Shape, strides and is_contiguous() of tensors turned to channels_last."""
    plain = {sizes: torch.rand(sizes) for sizes in (*ORDINARY, *DEGENERATE.values())}
    last = {sizes: x.to(memory_format=torch.channels_last) for sizes, x in plain.items()}
    yield {sizes: torch.equal(last[sizes], plain[sizes]) for sizes in ORDINARY}
    nhwc = {(n, c, h, w): (c * h * w, 1, w * c, c) for n, c, h, w in ORDINARY}
    yield {sizes: last[sizes].stride() == strides for sizes, strides in nhwc.items()}
    yield {sizes: not last[sizes].is_contiguous() for sizes in ORDINARY}
    yield {what: not last[sizes].is_contiguous() for what, sizes in DEGENERATE.items()}
