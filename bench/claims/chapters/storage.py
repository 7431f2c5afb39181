"""What a view shares with its tensor: bytes of another type, and a storage that stays alive."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.claims.measuring import watched
from bench.devices import Hardware


@dataclass(frozen=True)
class Reinterpreted:
    """`.view(dtype)` beside the same of numpy, and what it refuses."""

    right: Annotated[Mapping[str, bool], "elements, last dimension and memory as expected:"]
    refused: Annotated[Mapping[str, str], "refused:"]
    accepted: Annotated[Mapping[str, bool], "accepted although strided:"]


def bytes_reinterpreted(seen: Reinterpreted) -> Verdict:
    """Refuted if an accepted call gives other elements than the same bytes read as the new type.

    Refuted, too, if the last dimension is not what the sizes make it; within limits if some tensors
    are refused; else holds.
    """
    wrong = [what for what, right in {**seen.right, **seen.accepted}.items() if not right]
    if wrong:
        return refuted("bytes or the last dimension came out differently", f"wrong: {wrong[0]}")
    told = f"{len(seen.right)} pairs of types read the same bytes and rescaled the last dimension"
    limits = [f"refused: {what}" for what in seen.refused]
    return within_limits(told, *limits) if limits else holds(told)


TYPES = (
    ("float32", "int32"),
    ("float32", "uint8"),
    ("float16", "int32"),
    ("float16", "float64"),
    ("int64", "float16"),
    ("complex64", "float32"),
    ("uint8", "int64"),
)

STRIDED: dict[str, Callable[[], Tensor]] = {
    "float32 to int32 of a transpose": lambda: torch.ones(4, 6).T.view(torch.int32),
}

DOUBTFUL: dict[str, Callable[[], Tensor]] = {
    "a last dimension with a stride other than 1, to another size": lambda: torch.ones(4, 6).T.view(
        torch.float64
    ),
    "a last dimension that the new size does not divide": lambda: torch.ones(4, 3).view(
        torch.float64
    ),
    "an offset that the new size does not divide": lambda: torch.ones(9)[1:].view(torch.float64),
    "a tensor without dimensions, to another size": lambda: torch.tensor(1.0).view(torch.uint8),
}


@claim(
    id="view-dtype",
    statement="`.view(dtype)` reinterprets bytes and rescales the last dimension",
    source=("000 .view", "003 §2.2"),
    needs=("cpu",),
    decide=bytes_reinterpreted,
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
def view_dtype(device: Hardware) -> Reinterpreted:
    """`.view` to types of the same, a smaller and a larger size, compared with numpy.

    Then the same of tensors whose sizes or strides do not fit.
    """
    bits = np.random.default_rng(0).integers(0, 256, size=4 * 16, dtype=np.uint8).reshape(4, 16)
    right = {f"{old} to {new}": _as_numpy(bits.view(old), new) for old, new in TYPES}
    refused = {}
    for what, call in DOUBTFUL.items():
        try:
            call()
        except RuntimeError as error:
            refused[what] = str(error)
    accepted = {what: bool((call() == 0x3F800000).all()) for what, call in STRIDED.items()}
    return Reinterpreted(right, refused, accepted)


def _as_numpy(array: np.ndarray[Any, Any], new: str) -> bool:
    tensor = torch.from_numpy(array)
    result, expected = tensor.view(getattr(torch, new)), array.view(new)
    return (
        result.shape == expected.shape
        and np.array_equal(result.numpy().view(np.uint8), expected.view(np.uint8))
        and np.array_equal(result.numpy(), expected, equal_nan=expected.dtype.kind in "fc")
        and result.data_ptr() == tensor.data_ptr()
    )


@dataclass(frozen=True)
class Kept:
    """What is held once only a slice of a tensor is left, and once only a copy of it is."""

    whole: Annotated[int, "the tensor", "B"]
    part: Annotated[int, "the slice's own elements", "B"]
    by_slice: Annotated[int, "held when only the slice is left", "B"]
    by_clone: Annotated[int, "held when only a clone of the slice is left", "B"]
    saved_slice: Annotated[int, "torch.save of the slice", "B"]
    saved_clone: Annotated[int, "torch.save of a clone", "B"]


def slice_keeps_all(seen: Kept) -> Verdict:
    """Holds if the slice alone keeps as many bytes as the whole tensor had; refuted if fewer."""
    if seen.by_slice < seen.whole:
        return refuted(
            "the rest of the tensor was given back",
            f"a slice of {seen.part:,} B of a tensor of {seen.whole:,} B kept {seen.by_slice:,} B",
        )
    return holds(
        f"a slice of {seen.part:,} B kept all {seen.by_slice:,} B, and torch.save of it wrote "
        f"{seen.saved_slice:,} B; a clone of it kept {seen.by_clone:,} B"
    )


@claim(
    id="view-keeps-storage",
    statement="a small slice keeps the whole storage alive",
    source=("002 Why this decomposition matters",),
    needs=("cpu",),
    decide=slice_keeps_all,
    snippet="""
        import torch
        from bench.allocations import watch_allocations

        with watch_allocations("only a slice is left", device="cpu") as kept:
            part = torch.empty(1000, 1000)[:1]
        with watch_allocations("only a clone is left", device="cpu") as cloned:
            copy = torch.empty(1000, 1000)[:1].clone()
        print(part.nbytes, kept.left_bytes, cloned.left_bytes)
    """,
)
def view_keeps_storage(device: Hardware) -> Kept:
    """Bytes still held when all that is left of a tensor of 1000 × 1000 is its first row."""

    def whole() -> Tensor:
        return torch.ones(1000, 1000)

    part, of_slice = watched(lambda: whole()[:1], device)
    copied, of_clone = watched(lambda: whole()[:1].clone(), device)
    return Kept(
        whole=whole().nbytes,
        part=part.nbytes,
        by_slice=of_slice.left_bytes,
        by_clone=of_clone.left_bytes,
        saved_slice=_saved_bytes(part),
        saved_clone=_saved_bytes(copied),
    )


def _saved_bytes(tensor: Tensor) -> int:
    file = io.BytesIO()
    torch.save(tensor, file)
    return len(file.getvalue())
