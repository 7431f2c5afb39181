"""Memory with strides of one's own: `empty_strided`, and kernels that are given such memory."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from modescope.bench.tools.claims import lab

STATED = (4, 3), (2, 1)  # sizes and strides in the document
REQUESTED = {
    "as in the document": STATED,
    "padded rows": ((4, 3), (8, 1)),
    "by columns": ((4, 3), (1, 4)),
    "one element for all": ((4, 3), (0, 0)),
}
PATTERN = 1234.5
COUNTS = (2**8, 2**10, 2**13)  # elements of 4 bytes: what malloc takes from its heap
TRIES = 20
NEIGHBOURS = 8
MOST_ELSEWHERE = 500


@lab.claim(
    "`empty_strided` gives uninitialised memory with the asked strides on CPU",
    "004 §1, example 1",
    figures={
        "as_requested": lab.must("strides are as asked:", True),
        "reused": lab.given("a block lies in memory that was freed before", True),
        "leftovers": lab.must(
            "elements that show what a tensor freed before had there [share]",
            lambda share: share > 0,
            "elements show what a tensor freed before had there",
        ),
        "filled": lab.should(
            "NaN with torch.use_deterministic_algorithms [share]",
            lambda share: share < 1,
            "torch.use_deterministic_algorithms leaves elements as they are",
        ),
    },
    snippet="""
        import torch

        old = [torch.full((16384,), 1234.5) for _ in range(20)]
        del old[::2]
        new = [torch.empty_strided((4, 2048), (2048, 1)) for _ in range(100)]
        seen = any((x == 1234.5).any() for x in new)
        print(new[0].stride(), "old values seen:", seen)
    """,
)
def empty_strided_cpu(device: lab.Hardware) -> lab.Values:
    """Strides of four kinds of tensors, and what elements show of the memory's earlier content.

    That is, how many have the value of a tensor of twice the size that was freed just before, in
    blocks that lie where it lay. Other memory may be new: the system fills that with zeros.
    """
    yield {what: torch.empty_strided(*each).stride() == each[1] for what, each in REQUESTED.items()}
    blocks = [_after_another(count) for count in COUNTS for _ in range(TRIES)]
    old = [elements == PATTERN for elements, reused in blocks if reused]
    yield bool(old)
    yield float(torch.cat(old).float().mean()) if old else None
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        elements = torch.cat([_after_another(COUNTS[0])[0] for _ in range(TRIES)])
    finally:
        torch.use_deterministic_algorithms(before)
    yield float(elements.isnan().float().mean())


def _after_another(count: int) -> tuple[Tensor, bool]:
    """A copy of what `empty_strided` hands out after tensors of twice the size were freed.

    And whether it lies where one of these lay. Blocks elsewhere are kept: malloc uses up other
    free blocks that fit before it takes a larger one.
    Of every two that lie side by side one stays, or malloc would put the freed ones together and
    might return them to the system. A block of just the size would be too small to be used again,
    because aligning it may take some of it.
    """
    old = [torch.full((2 * count,), PATTERN) for _ in range(NEIGHBOURS)]
    freed = [each.data_ptr() for each in old[::2]]
    del old[::2]
    kept: list[Tensor] = []
    for _ in range(MOST_ELSEWHERE):
        new = torch.empty_strided((4, count // 4), (count // 4, 1))
        room = new.element_size() * count  # of a freed one, what is before its second half
        if any(begin <= new.data_ptr() <= begin + room for begin in freed):
            return new.flatten().clone(), True
        kept.append(new)
    return kept[-1].flatten().clone(), False


def cuda_refuses(o: lab.Observed) -> lab.Rule:
    """Refuted if the call returns a tensor on the GPU with the asked strides.

    Undecided if it does anything else but raise NotImplementedError, as where memory ran out.
    """
    works = (o.error, o.where, o.strides) == (None, "cuda", STATED[1])
    kernel = f"{'a' if o.kernel else 'no'} CUDA kernel for aten::empty_strided"
    yield lab.require(
        "the call is not implemented",
        not works,
        'torch.empty_strided((4, 3), (2, 1), device="cuda") returned a tensor on the GPU',
        f"the call works, and the dispatcher has {kernel}",
    )
    yield lab.undecided_if(not o.refused, o.say("error", "where", "strides"))
    yield lab.holds(o.say("error"))


@lab.claim(
    "`aten::empty_strided` cannot use the CUDA backend",
    "004 title, §1, example 2",
    needs="cuda",
    rule=cuda_refuses,
    figures={
        "error": "error",
        "refused": "the error is a NotImplementedError",
        "where": "device of the result",
        "strides": "its strides",
        "kernel": "the dispatcher has a CUDA kernel for aten::empty_strided",
    },
    snippet="""
        import torch

        x = torch.empty_strided((4, 3), (2, 1), device="cuda")
        print(x.device, x.stride())
    """,
)
def empty_strided_cuda(device: lab.Hardware) -> lab.Values:
    """A call with the document's sizes on the GPU, and whether a kernel is registered for it."""
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty_strided", "CUDA")
    try:
        x = torch.empty_strided(*STATED, device=device.torch_device)
        x.fill_(1)
    except RuntimeError as error:
        return str(error), isinstance(error, NotImplementedError), None, None, kernel
    return None, False, x.device.type, x.stride(), kernel


SIDE = 8192  # 256 MiB of float32: more than any cache of a GPU
TRANSPOSED = {
    "x.T.relu()": "x.T.relu()",
    "x + x.T": "x + x.T",
    "gelu(x.T)": "functional.gelu(x.T)",
    "softmax(x.T)": "x.T.softmax(-1)",
    "layer_norm(x.T)": "functional.layer_norm(x.T, x.T.shape[-1:])",
}
PLAIN = {name: code.replace(".T", "") for name, code in TRANSPOSED.items()}


@lab.claim(
    "fused or elementwise CUDA kernels given a transposed input fall back to a strided kernel 5 to "
    "10 times slower",
    "003 §3.3",
    needs="cuda",
    timed=True,
    limit_s=180,
    figures={
        "factors": lab.must_lie(
            "time ÷ the same on contiguous memory, of [x]",
            5,
            10,
            "ratios to contiguous memory's time",
        )
    },
    snippet="""
        import torch
        from torch.utils.benchmark import Timer

        x = torch.rand(8192, 8192, device="cuda")
        for code in ("x + x", "x + x.T", "x.relu()", "x.T.relu()"):
            print(code, Timer(code, globals={"x": x}).blocked_autorange().median)
    """,
)
def strided_kernel_slow(device: lab.Hardware) -> lab.Values:
    """Time of calls on a transposed tensor ÷ the same on a contiguous one, in paired rounds."""
    x = torch.rand(SIDE, SIDE, device=device.torch_device)
    plain, strided = lab.functions("x", PLAIN), lab.functions("x", TRANSPOSED)
    yield {
        name: lab.speedup(partial(plain[name], x), partial(strided[name], x), device)
        for name in TRANSPOSED
    }
