"""Memory with strides of one's own: `empty_strided` on a CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.measuring import watched
from bench.devices import Hardware

Sizes = tuple[int, ...]

ASKED = {
    "as in the document": ((4, 3), (2, 1)),
    "padded rows": ((4, 3), (8, 1)),
    "by columns": ((4, 3), (1, 4)),
    "all alike": ((4, 3), (0, 0)),
}
PATTERN = 1234.5
COUNTS = (2**8, 2**10, 2**13)  # elements of 4 bytes: what malloc takes from its heap
TRIES = 20
NEIGHBOURS = 8


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

        old = [torch.full((16384,), 1234.5) for _ in range(20)]
        del old[::2]
        new = [torch.empty_strided((4, 2048), (2048, 1)) for _ in range(100)]
        seen = any((x == 1234.5).any() for x in new)
        print(new[0].stride(), "old values seen:", seen)
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
    """A copy of what `empty_strided` hands out right after tensors of twice the size were freed.

    Of every two that lie side by side one stays, or malloc would put the freed ones together and
    might return them to the system. A block of just the size would be too small to be used again,
    because aligning it may take some of it.
    """
    old = [torch.full((2 * count,), PATTERN) for _ in range(NEIGHBOURS)]
    del old[::2]
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
    refused: Annotated[bool, "the error is a NotImplementedError"]
    where: Annotated[str | None, "device of the result"]
    strides: Annotated[Sizes | None, "its strides"]
    kernel: Annotated[bool, "the dispatcher has a CUDA kernel for aten::empty_strided"]


def cuda_refuses(seen: OnCuda) -> Verdict:
    """Refuted if the call returns a tensor on the GPU with the asked strides.

    Holds if it raises NotImplementedError, which says that no kernel is there; else undecided, as
    where memory ran out.
    """
    if (
        seen.error is None
        and seen.where == "cuda"
        and seen.strides == ASKED["as in the document"][1]
    ):
        return refuted(
            f"the call works, and the dispatcher has {'a' if seen.kernel else 'no'} CUDA kernel "
            "for aten::empty_strided",
            'torch.empty_strided((4, 3), (2, 1), device="cuda") returned a tensor on the GPU',
        )
    if seen.refused:
        return holds(f"the call is not implemented: {seen.error}")
    if seen.error is not None:
        return inconclusive(f"the call failed for another reason: {seen.error}")
    return inconclusive(f"the call returned a tensor on {seen.where} with strides {seen.strides}")


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
        return OnCuda(str(error), isinstance(error, NotImplementedError), None, None, kernel)
    return OnCuda(None, False, x.device.type, x.stride(), kernel)
