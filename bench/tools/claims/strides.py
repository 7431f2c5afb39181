"""Strides: what they are after a call, in memory that is asked for, and what they cost."""

from __future__ import annotations

import torch
from torch import Tensor

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, holds, in_range, refuted, undecided
from modescope.bench.tools.claims.measuring import calls, speedup


@claim(
    "the strides of `permute(2, 0, 1)` on (3, 4, 5) are (1, 20, 5), offset 0, not contiguous",
    "003 Exercise 1",
)
def permute_exercise(device: Hardware) -> Answer:
    """Shape, strides, offset and contiguity of the permuted tensor. Refuted if one is another.

    import torch
    b = torch.empty(3, 4, 5).permute(2, 0, 1)
    print(tuple(b.shape), b.stride(), b.storage_offset(), b.is_contiguous())
    """
    b = torch.empty(3, 4, 5).permute(2, 0, 1)
    stated = {"shape": (5, 3, 4), "strides": (1, 20, 5), "offset": 0, "contiguous": False}
    found = {
        "shape": tuple(b.shape),
        "strides": b.stride(),
        "offset": int(b.storage_offset()),
        "contiguous": b.is_contiguous(),
    }
    if found != stated:
        return refuted("one of them is another", found, found)
    return holds("all four are as stated", found)


@claim("channels_last changes strides, not shape, and `is_contiguous()` is then false", "003 §3.4")
def channels_last(device: Hardware) -> Answer:
    """Elements, strides and is_contiguous() of tensors turned to channels_last.

    Refuted unless elements stay, strides are those of the order N, H, W, C, and the tensor is not
    contiguous. One of a single channel or pixel that is contiguous is a limit.

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
        numbers |= {f"{sizes}: strides": y.stride(), f"{sizes}: contiguous": y.is_contiguous()}
        c, h, w = sizes[1:]
        if c == 1 or h * w == 1:
            if y.is_contiguous():
                limits.append(f"{sizes} stays contiguous")
        elif not torch.equal(x, y) or y.is_contiguous() or y.stride() != (c * h * w, 1, w * c, c):
            wrong[f"{sizes}: strides"] = y.stride()
    if wrong:
        return refuted("elements, strides or contiguity are others", numbers, wrong)
    return holds("strides become those of N, H, W, C", numbers, limits)


PATTERN = 1234.5
ASKED = ((2, 1), (8, 1), (1, 4), (0, 0))


@claim(
    "`empty_strided` gives uninitialised memory with the asked strides on CPU", "004 §1, example 1"
)
def empty_strided_cpu(device: Hardware) -> Answer:
    """Strides, and the share of elements with the value of a tensor of twice the size freed before.

    Of blocks that lie where that lay. Refuted if strides are others or no element shows the value,
    undecided if no block lies there. A limit if torch.use_deterministic_algorithms fills them.

    import torch
    old = [torch.full((16384,), 1234.5) for _ in range(20)]
    del old[::2]
    new = [torch.empty_strided((4, 2048), (2048, 1)) for _ in range(100)]
    seen = any((x == 1234.5).any() for x in new)
    print(new[0].stride(), "old values seen:", seen)
    """
    strides = {f"asked for {s}": torch.empty_strided((4, 3), s).stride() for s in ASKED}
    if list(strides.values()) != list(ASKED):
        return refuted("strides are others", strides, strides)
    blocks = [_after_another(count) for count in (2**8, 2**10, 2**13) for _ in range(20)]
    old = [elements == PATTERN for elements, reused in blocks if reused]
    if not old:
        return undecided("no block lies in memory that was freed before", strides)
    numbers = {**strides, "share of old values": float(torch.cat(old).float().mean())}
    if not numbers["share of old values"]:
        return refuted("no element shows an old value", numbers, numbers)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    filled = bool(_after_another(2**8)[0].isnan().any())
    torch.use_deterministic_algorithms(before)
    limits = ["torch.use_deterministic_algorithms fills it with NaN"] if filled else []
    return holds("strides are as asked, and elements show old values", numbers, limits)


def _after_another(count: int) -> tuple[Tensor, bool]:
    """A copy of what `empty_strided` gives after tensors were freed, and if it lies in one of them.

    Those are twice the size, as aligning a block may take some of it, and of every two neighbours
    one stays, or malloc would join the freed ones. It uses up other blocks first: these are kept.
    """
    old = [torch.full((2 * count,), PATTERN) for _ in range(8)]
    freed = [each.data_ptr() for each in old[::2]]
    del old[::2]
    kept: list[Tensor] = []
    for _ in range(500):
        kept.append(torch.empty_strided((4, count // 4), (count // 4, 1)))
        if any(0 <= kept[-1].data_ptr() - begin <= 4 * count for begin in freed):
            return kept[-1].flatten().clone(), True
    return kept[-1].flatten().clone(), False


@claim(
    "`aten::empty_strided` cannot use the CUDA backend", "004 title, §1, example 2", needs="cuda"
)
def empty_strided_cuda(device: Hardware) -> Answer:
    """A call with the document's sizes on the GPU.

    Refuted if it returns a tensor there with the asked strides, undecided if anything else happens
    but a NotImplementedError.

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
        return refuted("it returns a tensor on the GPU", found, found)
    return undecided("it returns something else", found)


SIDE = 8192  # 256 MiB of float32: more than any cache of a GPU


@claim(
    "fused or elementwise CUDA kernels given a transposed input fall back to a strided kernel 5"
    " to 10 times slower",
    "003 §3.3",
    needs="cuda",
    timed=True,
)
def strided_kernel_slow(device: Hardware) -> Answer:
    """Time of calls on a transposed tensor ÷ the same on a contiguous one, in paired rounds.

    Holds if all intervals lie within 5 to 10, within limits if some do, refuted if none does.

    import torch
    from torch.utils.benchmark import Timer
    x = torch.rand(8192, 8192, device="cuda")
    for code in ("x + x", "x + x.T", "x.relu()", "x.T.relu()"):
        print(code, Timer(code, globals={"x": x}).blocked_autorange().median)
    """
    x = torch.rand(SIDE, SIDE, device=device.torch_device)
    codes = (
        *("y.relu()", "x + y", "functional.gelu(y)", "y.softmax(-1)"),
        "functional.layer_norm(y, y.shape[-1:])",
    )
    plain, strided = calls(*codes, x=x, y=x), calls(*codes, x=x, y=x.T)
    ratios = {
        f"time ÷ that on contiguous memory, {code}, y = x.T": speedup(
            plain[code], strided[code], device
        )
        for code in codes
    }
    return in_range(ratios, 5, 10)
