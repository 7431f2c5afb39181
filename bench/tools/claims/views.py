"""Views and copies: what is accepted, what shares memory, and what is allocated."""

from __future__ import annotations

import numpy as np
import torch

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, holds, refuted, say
from modescope.bench.tools.claims.measuring import bytes_taken, calls, refusal, watched

STRIDED = (  # x has shape (4, 6)
    *("x.T.{}(6, 2, 2)", "x.T.{}(3, 2, 4)", "x.T.{}(24)", "x[:, :3].{}(2, 2, 3)"),
    *("x[:, ::2].{}(2, 2, 3)", "x[:, ::2].{}(12)", "x[:1].expand(4, 6).{}(24)"),
)
"""Calls on tensors that are not contiguous."""


@claim("`.view` can only be called on contiguous tensors", "000 .view")
def view_contiguous(device: Hardware) -> Answer:
    """`.view` of tensors that are not contiguous. Refuted if one is accepted.

    import torch
    x = torch.arange(24).view(4, 6).T
    print(x.is_contiguous(), x.stride())
    y = x.view(6, 2, 2)
    print(y.data_ptr() == x.data_ptr(), y.stride())
    try:
        x.view(24)
    except RuntimeError as error:
        print(str(error)[:50])
    """
    x = torch.arange(24.0).view(4, 6)
    views = calls(*(code.format("view") for code in STRIDED), x=x)
    outcomes = {code: refusal(call) or "accepted" for code, call in views.items()}
    accepted = {code: outcome for code, outcome in outcomes.items() if outcome == "accepted"}
    if accepted:
        return refuted(f"{len(accepted)} of {len(outcomes)} are accepted", outcomes, accepted)
    return holds("none is accepted", outcomes)


@claim(
    "`.reshape` allocates when the source is not contiguous",
    "000 .reshape, Takeaways",
    needs="cpu cuda",
)
def reshape_copies(device: Hardware) -> Answer:
    """Memory that `.reshape` takes of tensors that are not contiguous. Refuted if one takes none.

    import torch
    from modescope.bench.allocations import watch_allocations
    x = torch.randn(1024, 1024)
    for shape in ((512, 2048), (1024, 2, 512)):
        with watch_allocations(f"x.T.reshape{shape}", device="cpu"):
            y = x.T.reshape(shape)
        print(y.data_ptr() == x.data_ptr())
    """
    x = torch.arange(24.0, device=device.torch_device).view(4, 6)
    numbers = bytes_taken(device, *(code.format("reshape") for code in STRIDED), x=x)
    free = {label: taken for label, taken in numbers.items() if not taken}
    if free:
        return refuted(f"{len(free)} of {len(numbers)} take no memory", numbers, free)
    return holds("all of them are copies", numbers)


@claim(
    "`.contiguous()` on a transposed tensor allocates a full copy; on a contiguous one nothing",
    "000 .contiguous; 002 Why this decomposition matters",
    needs="cpu cuda",
)
def contiguous_copies(device: Hardware) -> Answer:
    """Memory that `.contiguous()` takes on a tensor of 1024 × 1024 and on transposes.

    Refuted unless the transpose takes 4 MiB or more, and the tensor itself nothing. A transposed
    row that takes nothing is a limit.

    import torch
    from modescope.bench.allocations import watch_allocations
    x = torch.randn(1024, 1024)
    for label, y in {"x": x, "x.T": x.T, "x[:1].T": x[:1].T}.items():
        with watch_allocations(f"{label}.contiguous()", device="cpu"):
            y.contiguous()
    """
    x = torch.ones(1024, 1024, device=device.torch_device)
    codes = "x.T.contiguous()", "x.contiguous()", "x[:1].T.contiguous()"
    numbers = bytes_taken(device, *codes, x=x)
    transposed, plain, row = numbers.values()
    if transposed < x.nbytes or plain:
        return refuted("x.T is not copied, or x is", numbers, numbers)
    limits = [] if row else ["x[:1].T, of one row, takes nothing: it is contiguous, too"]
    return holds("x.T is copied, x is not", numbers, limits)


@claim("`.repeat` always allocates, `.expand` never", "000 .repeat and .expand", needs="cpu cuda")
def repeat_copies(device: Hardware) -> Answer:
    """Memory that `.repeat` and `.expand` take, on 64 × 64 elements of 4 B or a row of them.

    Refuted if a repeat, even one of nothing, takes less than its result has, or an expand anything.

    import torch
    from modescope.bench.allocations import watch_allocations
    row = torch.randn(1, 1024)
    with watch_allocations("repeat", device="cpu"):
        x = row.repeat(1, 1)
    with watch_allocations("expand", device="cpu"):
        y = row.expand(1000, -1)
    print(x.data_ptr() == row.data_ptr(), y.data_ptr() == row.data_ptr(), y.stride())
    """
    x = torch.ones(64, 64, device=device.torch_device)
    repeats = "x.repeat(2, 1)", "x.repeat(1, 1)", "x.T.repeat(1, 3)", "x[:1].repeat(64, 1)"
    expands = "x[:1].expand(1000, -1)", "x.expand(9, -1, -1)", "x.expand(-1, -1)", "x.expand_as(x)"
    repeated, expanded = (bytes_taken(device, *codes, x=x) for codes in (repeats, expands))
    if min(repeated.values()) < x.nbytes or any(expanded.values()):
        numbers = repeated | expanded
        return refuted("a repeat does not copy, or an expand takes memory", numbers, numbers)
    return holds("repeat copies all, expand takes nothing", repeated | expanded)


@claim(
    "`.view`, `.T`, `transpose`, `permute`, `expand`, `narrow`, slices never allocate",
    "000 .view, .T, .repeat and .expand, .narrow, Takeaways",
    needs="cpu cuda",
)
def view_no_alloc(device: Hardware) -> Answer:
    """Memory that each call takes on a tensor of 1024 × 1024.

    Refuted if one of a dense tensor takes some; one of a sparse tensor that does is a limit.

    import torch
    from modescope.bench.allocations import watch_allocations
    x = torch.randn(1024, 1024)
    with watch_allocations("views", device="cpu"):
        x.view(512, 2048), x.T, x.permute(1, 0), x.expand(3, -1, -1), x.narrow(0, 1, 5), x[1:6]
    s = torch.eye(1024).to_sparse()
    with watch_allocations("transpose of a sparse tensor", device="cpu"):
        s.transpose(0, 1)
    """
    x = torch.ones(1024, 1024, device=device.torch_device)
    views = "x.view(512, 2048)", "x.view(torch.int32)", "x.T", "x.transpose(0, 1)"
    views += "x.permute(1, 0)", "x.expand(3, -1, -1)", "x.narrow(0, 1, 5)", "x[1:6]", "x[:, ::3]"
    dense = bytes_taken(device, *views, x=x)
    sparse = bytes_taken(device, "sparse.transpose(0, 1)", sparse=x.to_sparse())
    copied = {label: taken for label, taken in dense.items() if taken}
    if copied:
        return refuted("some take memory", dense | sparse, copied)
    limits = [say(sparse)] if any(sparse.values()) else []
    return holds("views of dense tensors take nothing", dense | sparse, limits)


@claim("a small slice keeps the whole storage alive", "002 Why this decomposition matters")
def view_keeps_storage(device: Hardware) -> Answer:
    """Bytes still held when all that is left of a tensor of 1000 × 1000 is its first row.

    Refuted if that is less than the whole tensor has.

    import torch
    from modescope.bench.allocations import watch_allocations
    with watch_allocations("only a slice is left", device="cpu") as kept:
        part = torch.empty(1000, 1000)[:1]
    with watch_allocations("only a clone is left", device="cpu") as cloned:
        copy = torch.empty(1000, 1000)[:1].clone()
    print(part.nbytes, kept.left_bytes, cloned.left_bytes)
    """
    part, held = watched(lambda: torch.ones(1000, 1000)[:1], device)
    numbers = {"bytes of the slice's own elements": part.nbytes, "bytes held": held.left_bytes}
    if held.left_bytes < 4 * 1000 * 1000:
        return refuted("the slice keeps less than the whole tensor", numbers, numbers)
    return holds("the slice alone keeps the whole tensor", numbers)


@claim("`.view(dtype)` reinterprets bytes and rescales the last dimension", "000 .view; 003 §2.2")
def view_dtype(device: Hardware) -> Answer:
    """`.view` to types of the same, a smaller and a larger size, compared with numpy.

    Refuted if type, shape or memory are not those of numpy's view. Of tensors whose sizes, strides
    or offset do not fit, each that is refused is a limit.

    import torch
    x = torch.ones(2, 8, dtype=torch.float16)
    y = x.view(torch.int32)
    print(y.shape, hex(y[0, 0].item()), y.data_ptr() == x.data_ptr())
    try:
        x.T.view(torch.int32)
    except RuntimeError as error:
        print(error)
    """
    bits = np.random.default_rng(0).integers(0, 256, size=(4, 64), dtype=np.uint8)
    alike: dict[str, bool] = {}
    for old, new in (("float32", "int32"), ("float16", "float64"), ("complex64", "float32")):
        expected = bits.view(old).view(new)
        found = torch.from_numpy(bits.view(old)).view(getattr(torch, new)).numpy()
        same = (found.dtype, found.shape) == (expected.dtype, expected.shape)
        alike[f"as by numpy, {old} to {new}"] = same and np.shares_memory(found, bits)
    doubtful = (
        *("torch.ones(4, 6).T.view(torch.int32)", "torch.ones(4, 6).T.view(torch.float64)"),
        *("torch.ones(4, 3).view(torch.float64)", "torch.ones(9)[1:].view(torch.float64)"),
        "torch.tensor(1.0).view(torch.uint8)",
    )
    refusals = {code: refusal(call) or "accepted" for code, call in calls(*doubtful).items()}
    if not all(alike.values()):
        return refuted("bytes are reinterpreted otherwise than by numpy", alike | refusals, alike)
    limits = [say({code: why}) for code, why in refusals.items() if why != "accepted"]
    return holds("bytes are reinterpreted as by numpy", alike | refusals, limits)
