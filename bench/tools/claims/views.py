"""Claims about views, copies and strides."""

from __future__ import annotations

import numpy as np
import torch

from modescope.bench.allocations import watch_allocations
from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import (
    Answer,
    claim,
    holds,
    in_range,
    refuted,
    say,
    undecided,
)
from modescope.bench.tools.claims.measuring import bytes_taken, calls, refusal, speedup

STRIDED = (  # x has shape (4, 6)
    *("x.T.{}(6, 2, 2)", "x.T.{}(3, 2, 4)", "x.T.{}(24)", "x[:, :3].{}(2, 2, 3)"),
    *("x[:, ::2].{}(2, 2, 3)", "x[:, ::2].{}(12)", "x[:1].expand(4, 6).{}(24)"),
)
"""Calls on tensors that are not contiguous; {} is the method, such as view."""


@claim("`.view` can only be called on contiguous tensors", "000 .view")
def view_contiguous(device: Hardware) -> Answer:
    """Whether `.view` accepts tensors that are not contiguous.

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
    "`.reshape` allocates when the source is not contiguous", "000 .reshape, Takeaways", "cpu cuda"
)
def reshape_copies(device: Hardware) -> Answer:
    """Memory that `.reshape` takes for tensors that are not contiguous.

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
    "cpu cuda",
)
def contiguous_copies(device: Hardware) -> Answer:
    """Memory that `.contiguous()` takes for a 1024 × 1024 tensor and two transposed views.

    If it takes none for a transposed row, which is contiguous, that only limits the claim.

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
        return refuted("x.T is not copied, or x is", numbers)
    limits = [] if row else ["x[:1].T, of one row, takes nothing: it is contiguous, too"]
    return holds("x.T is copied, x is not", numbers, limits)


@claim("`.repeat` always allocates, `.expand` never", "000 .repeat and .expand", "cpu cuda")
def repeat_copies(device: Hardware) -> Answer:
    """Memory that `.repeat`, also by 1, and `.expand` take for a 64 × 64 tensor of 4-byte elements.

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
        return refuted("a repeat does not copy, or an expand takes memory", numbers)
    return holds("repeat copies all, expand takes nothing", repeated | expanded)


@claim(
    "`.view`, `.T`, `transpose`, `permute`, `expand`, `narrow`, slices never allocate",
    "000 .view, .T, .repeat and .expand, .narrow, Takeaways",
    "cpu cuda",
)
def view_no_alloc(device: Hardware) -> Answer:
    """Memory that views of a 1024 × 1024 tensor take.

    Memory for the transpose of a sparse tensor only limits the claim.

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
    views = ["x.view(512, 2048)", "x.view(torch.int32)", "x.T", "x.transpose(0, 1)"]
    views += ["x.permute(1, 0)", "x.expand(3, -1, -1)", "x.narrow(0, 1, 5)", "x[1:6]", "x[:, ::3]"]
    dense = bytes_taken(device, *views, x=x)
    sparse = bytes_taken(device, "sparse.transpose(0, 1)", sparse=x.to_sparse())
    copied = {label: taken for label, taken in dense.items() if taken}
    if copied:
        return refuted("some take memory", dense | sparse, copied)
    limits = [say(sparse)] if any(sparse.values()) else []
    return holds("views of dense tensors take nothing", dense | sparse, limits)


@claim("a small slice keeps the whole storage alive", "002 Why this decomposition matters")
def view_keeps_storage(device: Hardware) -> Answer:
    """Bytes still held when only the first row of a 1000 × 1000 tensor is left.

    import torch
    from modescope.bench.allocations import watch_allocations
    with watch_allocations("only a slice is left", device="cpu") as kept:
        part = torch.empty(1000, 1000)[:1]
    with watch_allocations("only a clone is left", device="cpu") as cloned:
        copy = torch.empty(1000, 1000)[:1].clone()
    print(part.nbytes, kept.left_bytes, cloned.left_bytes)
    """
    with watch_allocations("a slice is left", str(device.torch_device), report=None) as seen:
        part = torch.ones(1000, 1000)[:1]
    numbers = {"bytes of the slice's own elements": part.nbytes, "bytes held": seen.left_bytes}
    if (seen.left_bytes or 0) < 4 * 1000 * 1000:
        return refuted("the slice keeps less than the whole tensor", numbers)
    return holds("the slice alone keeps the whole tensor", numbers)


@claim("`.view(dtype)` reinterprets bytes and rescales the last dimension", "000 .view; 003 §2.2")
def view_dtype(device: Hardware) -> Answer:
    """Type, shape and memory after `.view(dtype)`, compared with numpy.

    If tensors whose sizes, strides or offset do not fit are refused, that only limits the claim.

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
    alike: dict[str, object] = {}
    for old, new in (("float32", "int32"), ("float16", "float64"), ("complex64", "float32")):
        expected = bits.view(old).view(new)
        found = torch.from_numpy(bits.view(old)).view(getattr(torch, new)).numpy()
        same = (found.dtype, found.shape) == (expected.dtype, expected.shape)
        alike[f"as by numpy, {old} to {new}"] = same and np.shares_memory(found, bits)
    if not all(alike.values()):
        return refuted("bytes are reinterpreted otherwise than by numpy", alike)
    codes = ["torch.ones(4, 6).T.view(torch.float64)", "torch.ones(4, 3).view(torch.float64)"]
    codes += ["torch.ones(9)[1:].view(torch.float64)", "torch.tensor(1.0).view(torch.uint8)"]
    refusals = {code: refusal(call) for code, call in calls(*codes).items()}
    limits = [f"{code}: {why}" for code, why in refusals.items() if why]
    return holds("bytes are reinterpreted as by numpy", alike, limits)


@claim(
    "the strides of `permute(2, 0, 1)` on (3, 4, 5) are (1, 20, 5), offset 0, not contiguous",
    "003 Exercise 1",
)
def permute_exercise(device: Hardware) -> Answer:
    """Strides, offset and contiguity of the permuted tensor.

    import torch
    b = torch.empty(3, 4, 5).permute(2, 0, 1)
    print(tuple(b.shape), b.stride(), b.storage_offset(), b.is_contiguous())
    """
    b = torch.empty(3, 4, 5).permute(2, 0, 1)
    found = {"strides": b.stride(), "offset": b.storage_offset(), "contiguous": b.is_contiguous()}
    if found != {"strides": (1, 20, 5), "offset": 0, "contiguous": False}:
        return refuted("one of them is another", found)
    return holds("all are as stated", found)


@claim("channels_last changes strides, not shape, and `is_contiguous()` is then false", "003 §3.4")
def channels_last(device: Hardware) -> Answer:
    """Elements, strides and contiguity after conversion to channels_last.

    A tensor of one channel or pixel that stays contiguous only limits the claim.

    import torch
    for sizes in ((2, 3, 4, 5), (2, 1, 4, 5)):
        x = torch.empty(sizes)
        y = x.to(memory_format=torch.channels_last)
        print(tuple(y.shape), x.stride(), y.stride(), y.is_contiguous())
    """
    numbers: dict[str, object] = {}
    wrong, limits = {}, []
    for sizes in ((2, 3, 4, 5), (1, 3, 4, 5), (8, 64, 7, 7), (2, 1, 4, 5), (2, 3, 1, 1)):
        x = torch.rand(sizes)
        y = x.to(memory_format=torch.channels_last)
        numbers[f"{sizes}: strides, contiguous"] = found = y.stride(), y.is_contiguous()
        c, h, w = sizes[1:]
        if y.is_contiguous() and (c == 1 or h * w == 1):
            limits.append(f"{sizes} stays contiguous")
        elif not torch.equal(x, y) or found != ((c * h * w, 1, w * c, c), False):
            wrong[f"{sizes}: strides, contiguous"] = found
    if wrong:
        return refuted("elements, strides or contiguity are others", numbers, wrong)
    return holds("strides become those of N, H, W, C", numbers, limits)


@claim(
    "`empty_strided` gives uninitialised memory with the asked strides on CPU", "004 §1, example 1"
)
def empty_strided_cpu(device: Hardware) -> Answer:
    """Strides, and how many new tensors show values of freed tensors of twice their size.

    If torch.use_deterministic_algorithms fills new tensors, that only limits the claim.

    import torch
    old = [torch.full((16384,), 1234.5) for _ in range(20)]
    del old[::2]
    new = [torch.empty_strided((4, 2048), (2048, 1)) for _ in range(100)]
    seen = any((x == 1234.5).any() for x in new)
    print(new[0].stride(), "old values seen:", seen)
    """
    asked = (2, 1), (8, 1), (1, 4), (0, 0)
    numbers: dict[str, object] = {
        f"asked for {strides}": torch.empty_strided((4, 3), strides).stride() for strides in asked
    }
    if list(numbers.values()) != list(asked):
        return refuted("strides are others", numbers)
    numbers["new tensors of 100 that show old values"] = shown = _old_values()
    if not shown:
        return refuted("no new tensor shows an old value", numbers)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    filled = _old_values() == 0
    torch.use_deterministic_algorithms(before)
    limits = ["torch.use_deterministic_algorithms fills it with NaN"] if filled else []
    return holds("strides are as asked, and elements show old values", numbers, limits)


def _old_values() -> int:
    """Frees tensors full of one value; returns how many of 100 new, smaller ones show it."""
    old = [torch.full((16384,), 1234.5) for _ in range(20)]
    del old[::2]  # of two neighbours one stays, or malloc would join the freed ones
    new = [torch.empty_strided((4, 2048), (2048, 1)) for _ in range(100)]
    return sum(bool((x == 1234.5).any()) for x in new)


@claim("`aten::empty_strided` cannot use the CUDA backend", "004 title, §1, example 2", "cuda")
def empty_strided_cuda(device: Hardware) -> Answer:
    """A call with the document's sizes on the GPU.

    import torch
    x = torch.empty_strided((4, 3), (2, 1), device="cuda")
    print(x.device, x.stride())
    """
    try:
        x = torch.empty_strided((4, 3), (2, 1), device=device.torch_device)
    except NotImplementedError as error:
        return holds("it is not implemented", {"error": str(error)})
    found = {"device": x.device.type, "strides": x.stride()}
    if found == {"device": "cuda", "strides": (2, 1)}:
        return refuted("it returns a tensor on the GPU", found)
    return undecided("it returns something else", found)


@claim(
    "fused or elementwise CUDA kernels given a transposed input fall back to a strided kernel 5"
    " to 10 times slower",
    "003 §3.3",
    "cuda clock",
)
def strided_kernel_slow(device: Hardware) -> Answer:
    """Time of calls on a transposed tensor ÷ that on a contiguous tensor, in paired rounds.

    import torch
    from torch.utils.benchmark import Timer
    x = torch.rand(8192, 8192, device="cuda")
    for code in ("x + x", "x + x.T", "x.relu()", "x.T.relu()"):
        print(code, Timer(code, globals={"x": x}).blocked_autorange().median)
    """
    x = torch.rand(8192, 8192, device=device.torch_device)  # 256 MiB: more than any cache of a GPU
    codes = "y.relu()", "x + y", "functional.gelu(y)", "y.softmax(-1)"
    plain, strided = calls(*codes, x=x, y=x), calls(*codes, x=x, y=x.T)
    label = "time ÷ that on contiguous memory, y = x.T"
    ratios = {f"{label}, {c}": speedup(plain[c], strided[c], device) for c in codes}
    return in_range(ratios, 5, 10)
