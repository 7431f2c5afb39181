"""Calls that copy, or do not: contiguous, reshape, repeat and expand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.chapters.views import CUBE_CODE, cube, new_shapes, taken_by
from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.claims.measuring import allocated_by
from bench.claims.seen import FOR_THE_RULE
from bench.devices import Hardware

SIDE = 1024


@dataclass(frozen=True)
class Copied:
    """Bytes that `.contiguous()` takes."""

    full: Annotated[int, "a full copy", "B"]
    transposed: Annotated[int, "kept by the result of x.T.contiguous()", "B"]
    scratch: Annotated[int, "taken and given back meanwhile", "B"]
    contiguous: Annotated[int, "taken by x.contiguous()", "B"]
    same_memory: Annotated[bool, "x.contiguous() lies where x does"]
    row: Annotated[int, "taken by x[:1].T.contiguous(), of one row", "B"]


def contiguous_copies_transposes(seen: Copied) -> Verdict:
    """Holds if a transpose keeps exactly a full copy and a contiguous tensor takes nothing.

    Within limits if a transpose of a single row, whose strides fit either way, takes nothing; else
    refuted.
    """
    if seen.transposed != seen.full:
        return refuted(
            "the transpose was not copied in full",
            f"x.T.contiguous() kept {seen.transposed:,} B, a full copy is {seen.full:,} B",
        )
    if seen.contiguous or not seen.same_memory:
        return refuted(
            "a contiguous tensor was copied", f"x.contiguous() took {seen.contiguous:,} B"
        )
    told = f"the copy of x.T kept {seen.full:,} B, which is all of it; x took nothing"
    if seen.row:
        return holds(told)
    return within_limits(told, "a transposed row counts as contiguous: no copy of it is made")


@claim(
    id="contiguous-copies",
    statement="`.contiguous()` on a transposed tensor allocates a full copy; on a contiguous one "
    "nothing",
    source=("000 .contiguous", "002 Why this decomposition matters"),
    needs=("cpu", "cuda"),
    decide=contiguous_copies_transposes,
    snippet="""
        import torch
        from bench.allocations import watch_allocations

        x = torch.randn(1024, 1024)
        for label, y in {"x": x, "x.T": x.T, "x[:1].T": x[:1].T}.items():
            with watch_allocations(f"{label}.contiguous()", device="cpu"):
                y.contiguous()
    """,
)
def contiguous_copies(device: Hardware) -> Copied:
    """Tensor memory that `.contiguous()` takes on a tensor of 1024 × 1024.

    And on its transpose, and on the transpose of one row.
    """
    x = torch.ones(SIDE, SIDE, device=device.torch_device)
    copying = allocated_by(x.T.contiguous, device)
    return Copied(
        full=x.nbytes,
        transposed=copying.left_bytes,
        scratch=copying.released_bytes,
        contiguous=taken_by(x.contiguous, device),
        same_memory=x.contiguous().data_ptr() == x.data_ptr(),
        row=taken_by(x[:1].T.contiguous, device),
    )


@dataclass(frozen=True)
class Reshaped:
    """Which of all pairs of source and new shape took memory."""

    contiguous: Annotated[int, "contiguous sources: pairs of source and new shape"]
    contiguous_copied: Annotated[int, "contiguous sources: took memory"]
    others: Annotated[int, "sources that are not contiguous: pairs"]
    others_copied: Annotated[int, "sources that are not contiguous: took memory"]
    unlike_view: Annotated[int, "took memory though .view is possible, or the other way round"]
    example: Annotated[str | None, FOR_THE_RULE]  # not contiguous, and took nothing


def reshape_copies_rest(seen: Reshaped) -> Verdict:
    """Refuted if reshaping a source that is not contiguous to a new shape takes no memory.

    Holds if it takes memory for all of them.
    """
    if seen.example is None:
        return holds(f"all {seen.others} sources that are not contiguous were copied")
    told = f"{seen.others_copied} of {seen.others} sources that are not contiguous were copied"
    if not seen.unlike_view:
        told += ", exactly those that no strides can express in the new shape"
    return refuted(told, seen.example)


@claim(
    id="reshape-copies",
    statement="`.reshape` allocates when the source is not contiguous",
    source=("000 .reshape, Takeaways",),
    needs=("cpu", "cuda"),
    decide=reshape_copies_rest,
    snippet="""
        import torch
        from bench.allocations import watch_allocations

        x = torch.randn(1024, 1024)
        for shape in ((512, 2048), (1024, 2, 512)):
            with watch_allocations(f"x.T.reshape{shape}", device="cpu"):
                y = x.T.reshape(shape)
            print(y.data_ptr() == x.data_ptr())
    """,
)
def reshape_copies(device: Hardware) -> Reshaped:
    """Tensor memory that `.reshape` takes on parts of a tensor of 2 × 3 × 4.

    On slices, permutations and expansions of it, for every other shape of as many elements.
    """
    x = cube(device)
    pairs, copied = {True: 0, False: 0}, {True: 0, False: 0}
    unlike_view, example = 0, None
    for code, source, shape in new_shapes(x):
        plain = source.is_contiguous()
        taken = taken_by(partial(source.reshape, shape), device)
        pairs[plain] += 1
        copied[plain] += taken > 0
        unlike_view += _viewable(source, shape) == (taken > 0)
        if not (plain or taken or example):
            example = (
                f"{CUBE_CODE}; {code} has strides {source.stride()}, is not contiguous, and "
                f"{code}.reshape{shape} took nothing: it is a view"
            )
    return Reshaped(pairs[True], copied[True], pairs[False], copied[False], unlike_view, example)


def _viewable(source: Tensor, shape: tuple[int, ...]) -> bool:
    try:
        source.view(shape)
    except RuntimeError:
        return False
    return True


REPEATS: dict[str, Callable[[Tensor], Tensor]] = {
    "x.repeat(2, 1)": lambda x: x.repeat(2, 1),
    "x.repeat(1, 1)": lambda x: x.repeat(1, 1),
    "x.T.repeat(1, 3)": lambda x: x.T.repeat(1, 3),
    "x[:1].expand(8, -1).repeat(1, 1)": lambda x: x[:1].expand(8, -1).repeat(1, 1),
}

EXPANSIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "x[:1].expand(1000, -1)": lambda x: x[:1].expand(1000, -1),
    "x.expand(1000, -1, -1)": lambda x: x.expand(1000, -1, -1),
    "x.expand(-1, -1)": lambda x: x.expand(-1, -1),
    "x[:, :1].T.expand(5, -1)": lambda x: x[:, :1].T.expand(5, -1),
    "x[:1].expand_as(x)": lambda x: x[:1].expand_as(x),
}


@dataclass(frozen=True)
class Repeated:
    """Bytes that results have of their own, as shares of their elements, and bytes taken."""

    repeated: Annotated[Mapping[str, float], "own memory ÷ size of", "share"]
    expanded: Annotated[Mapping[str, int], "taken by", "B"]


def repeat_copies_expand_views(seen: Repeated) -> Verdict:
    """Holds if each result of repeat has all elements of its own, and no expand takes memory.

    Else refuted.
    """
    for code, share in seen.repeated.items():
        if share < 1:
            return refuted("repeat did not copy", f"{code} has {100 * share:.0f} % of its own")
    for code, taken in seen.expanded.items():
        if taken:
            return refuted("expand took memory", f"{code} took {taken:,} B")
    return holds(
        f"{len(seen.repeated)} repeats were copied in full, even where nothing is repeated, and "
        f"{len(seen.expanded)} expansions took nothing"
    )


@claim(
    id="repeat-copies",
    statement="`.repeat` always allocates, `.expand` never",
    source=("000 .repeat and .expand",),
    needs=("cpu", "cuda"),
    decide=repeat_copies_expand_views,
    snippet="""
        import torch
        from bench.allocations import watch_allocations

        row = torch.randn(1, 1024)
        with watch_allocations("repeat", device="cpu"):
            x = row.repeat(1, 1)
        with watch_allocations("expand", device="cpu"):
            y = row.expand(1000, -1)
        print(x.data_ptr() == row.data_ptr(), y.data_ptr() == row.data_ptr(), y.stride())
    """,
)
def repeat_copies(device: Hardware) -> Repeated:
    """Tensor memory that results of `.repeat` keep and that `.expand` takes.

    On a tensor of 64 × 64, also where nothing is repeated.
    """
    x = torch.ones(64, 64, device=device.torch_device)
    return Repeated(
        repeated={code: _own_share(call, x, device) for code, call in REPEATS.items()},
        expanded={code: taken_by(partial(call, x), device) for code, call in EXPANSIONS.items()},
    )


def _own_share(call: Callable[[Tensor], Tensor], x: Tensor, device: Hardware) -> float:
    return allocated_by(lambda: call(x), device).left_bytes / call(x).nbytes
