"""Views: on what they are accepted, and what they allocate."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Annotated, Any

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.claims.measuring import allocated_by
from bench.claims.seen import FOR_THE_RULE
from bench.devices import Hardware

CUBE = (2, 3, 4)
CUBE_CODE = "x = torch.arange(24.).view(2, 3, 4)"

# code -> what it makes of a tensor of the shape CUBE
SOURCES: dict[str, Callable[[Tensor], Tensor]] = {
    "x": lambda x: x,
    **{
        f"x.permute{order}": partial(torch.permute, dims=order)
        for order in list(permutations(range(len(CUBE))))[1:]
    },
    "x[1:]": lambda x: x[1:],
    "x[:, :2]": lambda x: x[:, :2],
    "x[:, ::2]": lambda x: x[:, ::2],
    "x[..., :2]": lambda x: x[..., :2],
    "x[..., ::2]": lambda x: x[..., ::2],
    "x[..., :1].expand(2, 3, 4)": lambda x: x[..., :1].expand(2, 3, 4),
}


def cube(device: Hardware) -> Tensor:
    """What SOURCES are made of."""
    return torch.arange(24.0, device=device.torch_device).view(CUBE)


def new_shapes(x: Tensor) -> Iterator[tuple[str, Tensor, tuple[int, ...]]]:
    """Each of SOURCES made of `x`, by its code, with every other shape of as many elements."""
    for code, make in SOURCES.items():
        source = make(x)
        for shape in _shapes(source.numel()):
            if shape != source.shape:
                yield code, source, shape


def _shapes(count: int) -> list[tuple[int, ...]]:
    """All shapes of `count` elements whose sizes are above 1."""
    return [(count,)] + [
        (first, *rest)
        for first in range(2, count)
        if count % first == 0
        for rest in _shapes(count // first)
    ]


@dataclass(frozen=True)
class Viewed:
    """What became of `.view` over all SOURCES and shapes but their own."""

    contiguous: Annotated[int, "contiguous sources: pairs of source and new shape"]
    contiguous_accepted: Annotated[int, "contiguous sources: accepted"]
    others: Annotated[int, "sources that are not contiguous: pairs"]
    others_accepted: Annotated[int, "sources that are not contiguous: accepted, as a true view"]
    example: Annotated[str | None, FOR_THE_RULE]  # the first of these
    refusal: Annotated[str | None, "what a refusal says"]


def only_contiguous(seen: Viewed) -> Verdict:
    """Holds if every source that is not contiguous is refused for every new shape.

    Refuted if one is accepted and the result has the right elements in the source's memory.
    """
    if seen.example is None:
        return holds(f"all {seen.others} views of sources that are not contiguous were refused")
    return refuted(
        f"what counts is whether strides can express the new shape: {seen.others_accepted} of "
        f"{seen.others} views of sources that are not contiguous were accepted",
        seen.example,
    )


@claim(
    id="view-contiguous",
    statement="`.view` can only be called on contiguous tensors",
    source=("000 .view",),
    needs=("cpu",),
    decide=only_contiguous,
    snippet="""
        import torch

        x = torch.arange(24).view(4, 6).T
        print(x.is_contiguous(), x.stride())
        y = x.view(6, 2, 2)
        print(y.data_ptr() == x.data_ptr(), y.stride())
        try:
            x.view(24)
        except RuntimeError as error:
            print(str(error)[:50])
    """,
)
def view_contiguous(device: Hardware) -> Viewed:
    """`.view` on slices, permutations and expansions of a tensor of 2 × 3 × 4.

    To every other shape of as many elements.
    """
    x = cube(device)
    pairs, accepted = {True: 0, False: 0}, {True: 0, False: 0}
    example = refusal = None
    for code, source, shape in new_shapes(x):
        plain = source.is_contiguous()
        pairs[plain] += 1
        try:
            result = source.view(shape)
        except RuntimeError as error:
            refusal = refusal or str(error)
            continue
        accepted[plain] += _is_view(result, source)
        if not plain and example is None and _is_view(result, source):
            example = (
                f"{CUBE_CODE}; {code} has strides {source.stride()}, is not contiguous, and "
                f"{code}.view{shape} is a view with strides {result.stride()}"
            )
    return Viewed(pairs[True], accepted[True], pairs[False], accepted[False], example, refusal)


def _is_view(result: Tensor, source: Tensor) -> bool:
    """Whether it has the source's elements, in order, in the source's memory."""
    alike = torch.equal(result.flatten(), source.clone().flatten())
    return alike and result.data_ptr() == source.data_ptr()


TO_INTEGERS = "x.view(torch.int32)"
"""Which has no gradient."""

# What the documents call views.
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "x.view(512, 2048)": lambda x: x.view(512, 2048),
    TO_INTEGERS: lambda x: x.view(torch.int32),
    "x.T": lambda x: x.T,
    "x.transpose(0, 1)": lambda x: x.transpose(0, 1),
    "x.permute(1, 0)": lambda x: x.permute(1, 0),
    "x.expand(3, -1, -1)": lambda x: x.expand(3, -1, -1),
    "x.narrow(0, 1, 5)": lambda x: x.narrow(0, 1, 5),
    "x[1:6]": lambda x: x[1:6],
    "x[:, ::3]": lambda x: x[:, ::3],
    "x[..., 1]": lambda x: x[..., 1],
    "x.T[2:4].T": lambda x: x.T[2:4].T,
}

# Kinds of tensors that none of the documents speaks of.
OTHER_LAYOUTS: dict[str, Callable[[Tensor], Callable[[], Tensor]]] = {
    "x.to_sparse().transpose(0, 1)": lambda x: partial(x.to_sparse().transpose, 0, 1),
    "x.to_sparse().permute(1, 0)": lambda x: partial(x.to_sparse().permute, (1, 0)),
}


@dataclass(frozen=True)
class Taken:
    """Bytes of tensor memory that calls take, and what the new tensor object takes beside it."""

    dense: Annotated[Mapping[str, int], "taken by", "B"]
    with_grad: Annotated[Mapping[str, int], "taken with requires_grad by", "B"]
    other_layouts: Annotated[Mapping[str, int], "taken by", "B"]
    object_bytes: Annotated[float | None, "the new tensor object itself, on the heap", "B"]


def views_take_nothing(seen: Taken) -> Verdict:
    """Refuted if one of these calls on a dense tensor takes tensor memory.

    Within limits if only calls on another layout (sparse) do; holds if none does.
    """
    dense = {
        **{f"{code} with requires_grad": n for code, n in seen.with_grad.items()},
        **seen.dense,
    }
    for code, taken in dense.items():
        if taken:
            return refuted("a view took tensor memory", f"{code} took {taken:,} B")
    told = f"none of {len(dense)} calls on dense tensors took tensor memory"
    if seen.object_bytes is not None:
        told += (
            f"; each makes a tensor object of about {seen.object_bytes:.0f} B on the host's heap"
        )
    limits = [f"{code} took {taken:,} B" for code, taken in seen.other_layouts.items() if taken]
    return within_limits(told, *limits) if limits else holds(told)


@claim(
    id="view-no-alloc",
    statement="`.view`, `.T`, `transpose`, `permute`, `expand`, `narrow`, slices never allocate",
    source=("000 .view, .T, .repeat and .expand, .narrow, Takeaways",),
    needs=("cpu", "cuda"),
    decide=views_take_nothing,
    snippet="""
        import torch
        from bench.allocations import watch_allocations

        x = torch.randn(1024, 1024)
        with watch_allocations("views", device="cpu"):
            x.view(512, 2048), x.T, x.permute(1, 0), x.expand(3, -1, -1), x.narrow(0, 1, 5), x[1:6]
        s = torch.eye(1024).to_sparse()
        with watch_allocations("transpose of a sparse tensor", device="cpu"):
            s.transpose(0, 1)
    """,
)
def view_no_alloc(device: Hardware) -> Taken:
    """Tensor memory that each call takes on a tensor of 1024 × 1024, as the allocator tells."""
    x = torch.ones(1024, 1024, device=device.torch_device)
    leaf = torch.ones_like(x, requires_grad=True)
    with_grad = {code: view for code, view in VIEWS.items() if code != TO_INTEGERS}
    small = torch.eye(64, device=device.torch_device)
    return Taken(
        dense={code: taken_by(partial(view, x), device) for code, view in VIEWS.items()},
        with_grad={code: taken_by(partial(view, leaf), device) for code, view in with_grad.items()},
        other_layouts={code: taken_by(make(small), device) for code, make in OTHER_LAYOUTS.items()},
        object_bytes=_object_bytes(lambda: x.narrow(0, 1, 5)),
    )


def taken_by(step: Callable[[], object], device: Hardware) -> int:
    """Bytes of all allocations of a call, those that are returned before it ends included."""
    return allocated_by(step, device).allocated_bytes


class _Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc (2.33 and later), see mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _object_bytes(make: Callable[[], Tensor], count: int = 2000) -> float | None:
    """What one tensor takes besides its elements: Python's object and C++'s.

    None where the C library does not say how much of its heap is in use.
    """
    try:
        heap: Any = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    heap.restype = _Heap
    kept: list[Tensor | None] = [None] * count
    before = heap().uordblks
    for i in range(count):
        kept[i] = make()
    of_malloc = (heap().uordblks - before) / count
    return float(of_malloc + sys.getsizeof(kept[0]))
