"""Views: on what they are accepted, and what they allocate."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from modescope.bench.tools.claims import lab

CUBE_CODE = "x = torch.arange(24.).view(2, 3, 4)"
PERMUTED = [f"x.permute{order}" for order in list(permutations(range(3)))[1:]]
SLICES = "x[1:]", "x[:, :2]", "x[:, ::2]", "x[..., :2]", "x[..., ::2]"
SOURCES = lab.functions("x", ("x", *PERMUTED, *SLICES, "x[..., :1].expand(2, 3, 4)"))


def cube(device: lab.Hardware) -> Tensor:
    """What SOURCES are made of."""
    return torch.arange(24.0, device=device.torch_device).view(2, 3, 4)


def new_shapes(x: Tensor) -> Iterator[tuple[str, Tensor, tuple[int, ...]]]:
    """Each of SOURCES made of `x`, by its code, with every other shape of as many elements."""
    for code, make in SOURCES.items():
        source = make(x)
        for shape in _shapes(source.numel()):
            if shape != source.shape:
                yield code, source, shape


def _shapes(count: int) -> list[tuple[int, ...]]:
    """All shapes of `count` elements whose sizes are above 1."""
    firsts = [size for size in range(2, count) if count % size == 0]
    return [(count,), *((size, *rest) for size in firsts for rest in _shapes(count // size))]


def only_contiguous(o: lab.Observed) -> lab.Rule:
    """Refuted if a source that is not contiguous is accepted and the result is a true view."""
    accepted = f"{o.others_accepted} of {o.others} views of sources that are not contiguous were"
    yield lab.require(
        f"{accepted} accepted",
        not o.example,
        o.example,
        f"{accepted} accepted",
    )


@lab.claim(
    "`.view` can only be called on contiguous tensors",
    "000 .view",
    rule=only_contiguous,
    figures={
        "contiguous": "contiguous sources: pairs of source and new shape",
        "contiguous_accepted": "contiguous sources: accepted",
        "others": "sources that are not contiguous: pairs",
        "others_accepted": "sources that are not contiguous: accepted, as a true view",
        "example": "",
        "refusal": "what a refusal says",
    },
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
def view_contiguous(device: lab.Hardware) -> lab.Values:
    """`.view` of parts, permutations and expansions of a 2 × 3 × 4 tensor to all other shapes."""
    pairs, accepted, example, refusal = [0, 0], [0, 0], "", ""
    for code, source, shape in new_shapes(cube(device)):
        plain = source.is_contiguous()
        pairs[plain] += 1
        try:
            result = source.view(shape)
        except RuntimeError as error:
            refusal = refusal or str(error)
            continue
        same = torch.equal(result.flatten(), source.clone().flatten())
        if same and result.data_ptr() == source.data_ptr():
            accepted[plain] += 1
            if not plain:
                example = example or strided(code, source) + (
                    f"{code}.view{shape} is a view with strides {result.stride()}"
                )
    return pairs[True], accepted[True], pairs[False], accepted[False], example, refusal or None


def strided(code: str, source: Tensor) -> str:
    """The beginning of a counter-example."""
    return f"{CUBE_CODE}; {code} has strides {source.stride()}, is not contiguous, and "


VIEWS = lab.functions(
    "x",
    (
        *("x.view(512, 2048)", "x.view(torch.int32)", "x.T", "x.transpose(0, 1)"),
        *("x.permute(1, 0)", "x.expand(3, -1, -1)", "x.narrow(0, 1, 5)", "x[1:6]", "x[:, ::3]"),
        *("x[..., 1]", "x.T[2:4].T"),
    ),
)
SPARSE = lab.functions("x", ("x.transpose(0, 1)", "x.permute(1, 0)"))


@lab.claim(
    "`.view`, `.T`, `transpose`, `permute`, `expand`, `narrow`, slices never allocate",
    "000 .view, .T, .repeat and .expand, .narrow, Takeaways",
    needs="cpu cuda",
    figures={
        "dense": lab.must("taken by [B]", 0, "views of dense tensors take no tensor memory"),
        "with_grad": lab.must(
            "taken with requires_grad by [B]", 0, "nor do views of tensors with requires_grad"
        ),
        "sparse": lab.should("taken by [B]", 0, "views of sparse tensors take none, either"),
        "object_bytes": "the new tensor object itself, on the heap [B]",
    },
    snippet="""
        import torch
        from modescope.bench.allocations import watch_allocations

        x = torch.randn(1024, 1024)
        with watch_allocations("views", device="cpu"):
            x.view(512, 2048), x.T, x.permute(1, 0), x.expand(3, -1, -1), x.narrow(0, 1, 5), x[1:6]
        s = torch.eye(1024).to_sparse()
        with watch_allocations("transpose of a sparse tensor", device="cpu"):
            s.transpose(0, 1)
    """,
)
def view_no_alloc(device: lab.Hardware) -> lab.Values:
    """Tensor memory that each call takes on a tensor of 1024 × 1024, as the allocator tells."""
    x = torch.ones(1024, 1024, device=device.torch_device)
    leaf = torch.ones_like(x, requires_grad=True)
    sparse = torch.eye(64, device=device.torch_device).to_sparse()
    yield {code: taken_by(partial(view, x), device) for code, view in VIEWS.items()}
    floats = {code: view for code, view in VIEWS.items() if "int32" not in code}
    yield {code: taken_by(partial(view, leaf), device) for code, view in floats.items()}
    yield {
        code.replace("x.", "x.to_sparse()."): taken_by(partial(view, sparse), device)
        for code, view in SPARSE.items()
    }
    yield _object_bytes(lambda: x.narrow(0, 1, 5))


def taken_by(step: Callable[[], object], device: lab.Hardware) -> int:
    """Bytes of all allocations of a call, those that are returned before it ends included."""
    return lab.allocated_by(step, device).allocated_bytes


class _Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc (2.33 and later), see mallinfo(3)."""

    _fields_ = [("counts", ctypes.c_size_t * 10)]


def _object_bytes(make: Callable[[], Tensor], count: int = 2000) -> float | None:
    """What a tensor takes besides its elements; None where the C library does not say."""
    try:
        heap: Any = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    heap.restype, uordblks = _Heap, 7
    kept: list[Tensor | None] = [None] * count
    before = heap().counts[uordblks]
    for i in range(count):
        kept[i] = make()
    of_malloc = (heap().counts[uordblks] - before) / count
    return float(of_malloc + sys.getsizeof(kept[0]))
