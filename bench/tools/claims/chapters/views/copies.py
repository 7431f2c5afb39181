"""Calls that copy, or do not: contiguous, reshape, repeat and expand."""

from __future__ import annotations

from functools import partial

import torch

from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.chapters.views.shapes import cube, new_shapes, strided, taken_by

SIDE = 1024


@lab.claim(
    "`.contiguous()` on a transposed tensor allocates a full copy; on a contiguous one nothing",
    "000 .contiguous; 002 Why this decomposition matters",
    needs="cpu cuda",
    figures={
        "transposed": lab.must(
            "kept by the result of x.T.contiguous() [B]",
            4 * SIDE**2,
            "x.T.contiguous() is a full copy, of 4 MiB",
        ),
        "contiguous": lab.must("taken by x.contiguous() [B]", 0, "x.contiguous() takes no memory"),
        "same_memory": lab.must("x.contiguous() lies where x does", True),
        "row": lab.should(
            "taken by x[:1].T.contiguous(), of one row [B]",
            lambda taken: taken > 0,
            "a transposed row is copied, too",
        ),
    },
    snippet="""
        import torch
        from modescope.bench.allocations import watch_allocations

        x = torch.randn(1024, 1024)
        for label, y in {"x": x, "x.T": x.T, "x[:1].T": x[:1].T}.items():
            with watch_allocations(f"{label}.contiguous()", device="cpu"):
                y.contiguous()
    """,
)
def contiguous_copies(device: lab.Hardware) -> lab.Values:
    """Tensor memory that `.contiguous()` takes on a tensor of 1024 × 1024 and on transposes."""
    x = torch.ones(SIDE, SIDE, device=device.torch_device)
    yield lab.allocated_by(x.T.contiguous, device).left_bytes
    yield taken_by(x.contiguous, device)
    yield x.contiguous().data_ptr() == x.data_ptr()
    yield taken_by(x[:1].T.contiguous, device)


def others_are_copied(o: lab.Observed) -> lab.Rule:
    """Refuted if a reshape of a source that is not contiguous, to a new shape, takes no memory."""
    copied = f"{o.others_copied} of {o.others} reshapes of sources that are not contiguous copy"
    which = "" if o.unlike_view else ": exactly those to shapes that .view refuses"
    yield lab.require(copied, not o.example, o.example, copied + which)


@lab.claim(
    "`.reshape` allocates when the source is not contiguous",
    "000 .reshape, Takeaways",
    needs="cpu cuda",
    rule=others_are_copied,
    figures={
        "others": "reshapes of sources that are not contiguous",
        "others_copied": "of these, took memory",
        "unlike_view": "reshapes that take memory though .view is possible, or the other way round",
        "example": "",
    },
    snippet="""
        import torch
        from modescope.bench.allocations import watch_allocations

        x = torch.randn(1024, 1024)
        for shape in ((512, 2048), (1024, 2, 512)):
            with watch_allocations(f"x.T.reshape{shape}", device="cpu"):
                y = x.T.reshape(shape)
            print(y.data_ptr() == x.data_ptr())
    """,
)
def reshape_copies(device: lab.Hardware) -> lab.Values:
    """Tensor memory that `.reshape` takes, to every other shape of as many elements.

    The sources are parts, permutations and expansions of a tensor of 2 × 3 × 4.
    """
    others = copied = unlike_view = 0
    example = ""
    for code, source, shape in new_shapes(cube(device)):
        copies = taken_by(partial(source.reshape, shape), device) > 0
        unlike_view += (lab.refusal(partial(source.view, shape)) is None) == copies
        if source.is_contiguous():
            continue
        others += 1
        copied += copies
        if not (copies or example):
            example = f"{strided(code, source)}{code}.reshape{shape} took nothing: it is a view"
    return others, copied, unlike_view, example


REPEATS = lab.functions(
    "x",
    ("x.repeat(2, 1)", "x.repeat(1, 1)", "x.T.repeat(1, 3)", "x[:1].expand(8, -1).repeat(1, 1)"),
)
EXPANSIONS = lab.functions(
    "x",
    (
        *("x[:1].expand(1000, -1)", "x.expand(1000, -1, -1)", "x.expand(-1, -1)"),
        *("x[:, :1].T.expand(5, -1)", "x[:1].expand_as(x)"),
    ),
)


@lab.claim(
    "`.repeat` always allocates, `.expand` never",
    "000 .repeat and .expand",
    needs="cpu cuda",
    figures={
        "repeated": lab.must(
            "own memory ÷ size of [share]",
            lambda share: share >= 1,
            "repeat copies all elements, even where nothing is repeated",
        ),
        "expanded": lab.must("taken by [B]", 0, "expand takes no memory"),
    },
    snippet="""
        import torch
        from modescope.bench.allocations import watch_allocations

        row = torch.randn(1, 1024)
        with watch_allocations("repeat", device="cpu"):
            x = row.repeat(1, 1)
        with watch_allocations("expand", device="cpu"):
            y = row.expand(1000, -1)
        print(x.data_ptr() == row.data_ptr(), y.data_ptr() == row.data_ptr(), y.stride())
    """,
)
def repeat_copies(device: lab.Hardware) -> lab.Values:
    """Tensor memory of its own that each result of `.repeat` has, and that `.expand` takes."""
    x = torch.ones(64, 64, device=device.torch_device)
    repeats = {code: partial(call, x) for code, call in REPEATS.items()}
    yield {c: lab.allocated_by(r, device).left_bytes / r().nbytes for c, r in repeats.items()}
    yield {code: taken_by(partial(call, x), device) for code, call in EXPANSIONS.items()}
