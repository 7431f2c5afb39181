"""Strides: exercises, channels_last, memory with strides of one's own, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims.claim import (
    Verdict,
    claim,
    holds,
    inconclusive,
    refuted,
    within_limits,
)
from bench.claims.measuring import speedup, watched
from bench.devices import Hardware
from bench.stats import Estimate

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
    told = f"so for {len(seen.contiguous)} usual sizes"
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


ASKED = {
    "as in the document": ((4, 3), (2, 1)),
    "padded rows": ((4, 3), (8, 1)),
    "by columns": ((4, 3), (1, 4)),
    "all alike": ((4, 3), (0, 0)),
}
PATTERN = 1234.5
COUNTS = (2**10, 2**14, 2**18)  # elements of 4 bytes: what malloc takes from its heap
TRIES = 20


@dataclass(frozen=True)
class Raw:
    """What `empty_strided` hands out."""

    strides: Annotated[Mapping[str, Sizes], "strides"]
    as_asked: Annotated[Mapping[str, bool], "as asked"]
    bytes_taken: Annotated[Mapping[str, int], "taken", "B"]
    leftovers: Annotated[float, "elements that show what a tensor freed before had there", "share"]
    other: Annotated[str | None, "another value that was found"]
    filled: Annotated[float, "NaN with torch.use_deterministic_algorithms", "share"]


def raw_memory(seen: Raw) -> Verdict:
    """Refuted if strides are not those asked for, or no element shows what was there before.

    Within limits if a switch of torch fills the memory; else holds.
    """
    wrong = [what for what, right in seen.as_asked.items() if not right]
    if wrong:
        return refuted("other strides", f"{wrong[0]}: {seen.strides[wrong[0]]}")
    if not seen.leftovers:
        return refuted(
            "the memory was filled",
            f"of memory that had held {PATTERN} no element did, one was {seen.other}",
        )
    told = (
        f"strides as asked, and {100 * seen.leftovers:.0f} % of the elements still had the value "
        "of a tensor freed before"
    )
    if seen.filled < 1:
        return holds(told)
    return within_limits(told, "torch.use_deterministic_algorithms(True) has it filled with NaN")


@claim(
    id="empty-strided-cpu",
    statement="`empty_strided` gives uninitialised memory with the asked strides on CPU",
    source=("004 §1, example 1",),
    needs=("cpu",),
    decide=raw_memory,
    snippet="""
        import torch

        seen = 0
        for _ in range(20):
            old = torch.full((16384,), 1234.5)
            del old
            x = torch.empty_strided((4, 4096), (4096, 1))
            seen += bool((x == 1234.5).any())
        print(x.stride(), "old values seen" if seen else "none of the old values")
    """,
)
def empty_strided_cpu(device: Hardware) -> Raw:
    """Strides and memory of four kinds of strided tensors, and what their elements show.

    That is, how many still have the value of a tensor of the same size that was freed just before.
    """
    made = {
        what: watched(partial(torch.empty_strided, *asked), device) for what, asked in ASKED.items()
    }
    found = torch.cat([_after_another(count) for count in COUNTS for _ in range(TRIES)])
    old = found == PATTERN
    others = found[~old]
    return Raw(
        strides={what: x.stride() for what, (x, _) in made.items()},
        as_asked={what: x.stride() == ASKED[what][1] for what, (x, _) in made.items()},
        bytes_taken={what: taken.allocated_bytes for what, (_, taken) in made.items()},
        leftovers=float(old.float().mean()),
        other=str(float(others[0])) if len(others) else None,
        filled=_filled_share(),
    )


def _after_another(count: int) -> Tensor:
    """A copy of what `empty_strided` hands out right after a tensor of that size was freed."""
    torch.full((count,), PATTERN)
    return torch.empty_strided((4, count // 4), (count // 4, 1)).flatten().clone()


def _filled_share() -> float:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        found = torch.cat([_after_another(COUNTS[0]) for _ in range(TRIES)])
    finally:
        torch.use_deterministic_algorithms(before)
    return float(found.isnan().float().mean())


@dataclass(frozen=True)
class OnCuda:
    """What became of a call of `empty_strided` on the device."""

    error: Annotated[str | None, "error"]
    where: Annotated[str | None, "device of the result"]
    strides: Annotated[Sizes | None, "its strides"]
    kernel: Annotated[bool, "the dispatcher has a CUDA kernel for aten::empty_strided"]


def cuda_refuses(seen: OnCuda) -> Verdict:
    """Refuted if the call returns a tensor on the GPU with the asked strides; else holds."""
    if (
        seen.error is None
        and seen.where == "cuda"
        and seen.strides == ASKED["as in the document"][1]
    ):
        return refuted(
            "it is the very call with which torch makes tensors there",
            'torch.empty_strided((4, 3), (2, 1), device="cuda") returned a tensor on the GPU',
        )
    return holds(f"the call failed: {seen.error or 'no tensor on the GPU'}")


@claim(
    id="empty-strided-cuda",
    statement="`aten::empty_strided` cannot use the CUDA backend",
    source=("004 title, §1, example 2",),
    needs=("cuda",),
    decide=cuda_refuses,
    snippet="""
        import torch

        x = torch.empty_strided((4, 3), (2, 1), device="cuda")
        print(x.device, x.stride())
    """,
)
def empty_strided_cuda(device: Hardware) -> OnCuda:
    """A call of `torch.empty_strided` with the document's sizes on the GPU.

    And whether the dispatcher has a kernel registered for it there.
    """
    sizes, strides = ASKED["as in the document"]
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty_strided", "CUDA")
    try:
        x = torch.empty_strided(sizes, strides, device=device.torch_device)
        x.fill_(1)
    except RuntimeError as error:
        return OnCuda(str(error), None, None, kernel)
    return OnCuda(None, x.device.type, x.stride(), kernel)


SIDE = 8192  # 256 MiB of float32: more than any cache of a GPU
FACTOR = (5.0, 10.0)

# what -> the call on contiguous tensors and the same on transposed ones
PAIRS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "x.T.relu()": (lambda x: x.relu(), lambda x: x.T.relu()),
    "x + x.T": (lambda x: x + x, lambda x: x + x.T),
    "gelu(x.T)": (functional.gelu, lambda x: functional.gelu(x.T)),
    "softmax(x.T)": (lambda x: x.softmax(-1), lambda x: x.T.softmax(-1)),
    "layer_norm(x.T)": (
        lambda x: functional.layer_norm(x, (x.shape[-1],)),
        lambda x: functional.layer_norm(x.T, (x.shape[0],)),
    ),
}


@dataclass(frozen=True)
class Slower:
    """How many times as long calls take on a transposed tensor."""

    factors: Annotated[Mapping[str, Estimate], "time of the same on contiguous memory, of", "x"]


def five_to_ten_times(seen: Slower) -> Verdict:
    """Holds if the interval of every factor lies within 5 to 10.

    Within limits if some do and the others lie outside; refuted if all lie outside; undecided where
    an interval contains a bound.
    """
    low, high = FACTOR
    inside, outside = [], []
    for what, factor in seen.factors.items():
        told = f"{what} took {factor.value:.2f} times as long"
        if factor.low is None or factor.high is None:
            return inconclusive(f"{what}: too few rounds for an interval")
        if low <= factor.low and factor.high <= high:
            inside.append(told)
        elif factor.high < low or factor.low > high:
            outside.append(told)
        else:
            return inconclusive(f"{told}, and its interval contains a bound of {low:g} to {high:g}")
    if not inside:
        return refuted("no factor lies between 5 and 10", "; ".join(outside))
    return within_limits("; ".join(inside), *outside) if outside else holds("; ".join(inside))


@claim(
    id="strided-kernel-slow",
    statement="fused or elementwise CUDA kernels given a transposed input fall back to a strided "
    "kernel 5 to 10 times slower",
    source=("003 §3.3",),
    needs=("cuda",),
    decide=five_to_ten_times,
    timed=True,
    limit_s=180,
    snippet="""
        import torch
        from torch.utils.benchmark import Timer

        x = torch.rand(8192, 8192, device="cuda")
        for code in ("x + x", "x + x.T", "x.relu()", "x.T.relu()"):
            print(code, Timer(code, globals={"x": x}).blocked_autorange().median)
    """,
)
def strided_kernel_slow(device: Hardware) -> Slower:
    """Time of elementwise and fused calls on a transposed tensor ÷ the same on a contiguous one.

    Of 8192 × 8192 float32, in paired rounds.
    """
    x = torch.rand(SIDE, SIDE, device=device.torch_device)
    return Slower(
        {
            what: speedup(partial(plain, x), partial(strided, x), device)
            for what, (plain, strided) in PAIRS.items()
        }
    )
