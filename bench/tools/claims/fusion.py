"""How many kernels are left once Inductor has fused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, judged, say
from modescope.bench.tools.claims.measuring import compiler_work, work_of


def short(x: Tensor) -> Tensor:
    """Four pointwise operators."""
    return (x * 2 + 1).tanh().relu()


def mixed(x: Tensor) -> Tensor:
    """With a transpose, a row, casts, in-place steps and torch.where."""
    y = (x.T * 2).to(torch.float64) + x[:1]
    y.add_(1).relu_()
    return torch.where(y > x, y, x.exp()).to(torch.float32).sigmoid()


@claim(
    "Inductor turns a chain of pointwise ops into one kernel",
    "003 §9.3 Inductor",
    needs="cpu cuda inductor",
    snippet="""
        import torch
        from torch._inductor.utils import run_and_get_code

        def chain(x):
            return (x * 2 + 1).tanh().relu()
        _, code = run_and_get_code(torch.compile(chain), torch.randn(64, 64))
        print("kernels:", code[0].count("async_compile.cpp_pybinding("))
    """,
)
def fused_pointwise(device: Hardware) -> Answer:
    """Kernels and operators that the code generated for chains calls; on a GPU launches, too.

    Refuted unless that is one kernel, and no operator. A limit if a chain of complex numbers is
    otherwise.
    """
    x = torch.rand(64, 64, device=device.torch_device)
    numbers: dict[str, int] = {}
    wrong: dict[str, int] = {}
    for chain in (short, mixed):
        compiled = torch.compile(chain, fullgraph=True)
        kernels, externs = _generated(compiled, x)
        counts = {f"kernels, {chain.__name__}": kernels, f"operators, {chain.__name__}": externs}
        if device.queues:  # a CPU's profiler does not see fused kernels
            counts[f"launches, {chain.__name__}"] = work_of(partial(compiled, x), device).kernels
        numbers |= counts
        if list(counts.values()) not in ([1, 0], [1, 0, 1]):
            wrong |= counts
    z = torch.ones(64, dtype=torch.complex64, device=device.torch_device)
    of_complex = _generated(torch.compile(lambda z: (z * 2 + 1).sin(), fullgraph=True), z)
    limits = [] if of_complex == (1, 0) else [f"complex numbers: {of_complex[1]} operators"]
    return judged("each chain becomes one kernel", numbers, wrong, limits)


def _generated(compiled: Callable[[Tensor], Tensor], x: Tensor) -> tuple[int, int]:
    """Kernels and operators that the code of a first call calls."""
    work = compiler_work(partial(compiled, x))
    return work.kernels, work.externs


def handwritten(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A layer norm."""
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias


ROWS = ((4096, 1024), (64, 16384), (8, 262144))  # of layers, long ones, few and very long ones


@claim(
    "a handwritten layer norm in eager is five or more kernels, Inductor often makes it one",
    "003 §9.3 Inductor",
    needs="cuda inductor",
    snippet="""
        import torch
        from torch.profiler import ProfilerActivity, profile

        def norm(x):
            return (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * 2 + 1
        x, compiled = torch.randn(4096, 1024, device="cuda"), torch.compile(norm)
        for f in (norm, compiled):
            f(x).sum().item()
            with profile(activities=[ProfilerActivity.CUDA]) as seen: f(x).cpu()
            print(sum("CUDA" in str(e.device_type) for e in seen.events()), "kernels and copies")
    """,
)
def layernorm_kernels(device: Hardware) -> Answer:
    """Kernels that a steady call of a layer norm launches, as the profiler sees them.

    Refuted if one in eager launches fewer than five, or a compiled one more than one for most
    shapes. For some shapes that is a limit.
    """
    eager, compiled = {}, {}
    for rows, width in ROWS:
        shapes = (rows, width), (width,), (width,)
        inputs = [torch.rand(shape, device=device.torch_device) for shape in shapes]
        torch.compiler.reset()
        fused = torch.compile(handwritten)
        label = f"kernels of {rows} × {width}"
        eager[f"{label}, eager"] = work_of(partial(handwritten, *inputs), device).kernels
        compiled[f"{label}, compiled"] = work_of(partial(fused, *inputs), device).kernels
    few = {label: kernels for label, kernels in eager.items() if kernels < 5}
    more = {label: kernels for label, kernels in compiled.items() if kernels != 1}
    wrong = few or (more if 2 * len(more) > len(compiled) else {})
    limits = [say({label: kernels}) for label, kernels in more.items()]
    return judged("five kernels in eager, often one compiled", eager | compiled, wrong, limits)
