"""How many kernels are left once Inductor has fused: chains of pointwise operators, layer norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.claims.measuring import compiling, work_of
from bench.devices import Hardware

Function = Callable[..., Tensor]

SIDE = 64
LONG = 100


def _short(x: Tensor) -> Tensor:
    return (x * 2 + 1).tanh().relu()


def _long(x: Tensor) -> Tensor:
    for i in range(LONG):
        x = x.sin() if i % 2 else x * 1.5
    return x


def _mixed(x: Tensor) -> Tensor:
    y = (x.T * 2).to(torch.float64) + x[:1]
    y.add_(1).relu_()
    return torch.where(y > x, y, x.exp()).to(torch.float32).sigmoid()


CHAINS: dict[str, Function] = {
    "(x * 2 + 1).tanh().relu()": _short,
    f"{LONG} operators in a row": _long,
    "a chain with a transpose, a row, casts, in-place steps and torch.where": _mixed,
}
COMPLEX = "(z * 2 + 1).sin() of complex numbers"


@dataclass(frozen=True)
class Fused:
    """What is left of chains of pointwise operators."""

    eager: Annotated[Mapping[str, int], "kernels in eager,"]
    generated: Annotated[Mapping[str, int], "kernels generated,"]
    operators: Annotated[Mapping[str, int], "operators that the generated code calls,"]
    launched: Annotated[Mapping[str, int], "kernels launched by a compiled call,"]
    complex_generated: Annotated[int, f"kernels generated, {COMPLEX}"]
    complex_operators: Annotated[int, f"operators that the generated code calls, {COMPLEX}"]


def one_kernel(seen: Fused) -> Verdict:
    """Refuted if the code of a chain of real numbers calls anything but one generated kernel.

    Or, on a GPU, if a call launches another number of them. Within limits if complex numbers are
    not fused; else holds.
    """
    for code, kernels in seen.generated.items():
        left, launched = seen.operators[code], seen.launched.get(code, 1)
        if (kernels, left, launched) != (1, 0, 1):
            told = f"{code}: {kernels} generated kernels and {left} operators, {launched} launched"
            return refuted("a chain became more than one kernel", told)
    most = max(seen.eager.values())
    told = f"{len(seen.generated)} chains of up to {most} kernels in eager became one kernel each"
    if (seen.complex_generated, seen.complex_operators) == (1, 0):
        return holds(told)
    return within_limits(
        told,
        f"of {COMPLEX} {seen.complex_generated} kernels were generated and "
        f"{seen.complex_operators} operators are called as in eager",
    )


@claim(
    id="fused-pointwise",
    statement="Inductor turns a chain of pointwise ops into one kernel",
    source=("003 §9.3 Inductor",),
    needs=("cpu", "cuda"),
    decide=one_kernel,
    compiles=True,
    limit_s=240,
    snippet="""
        import torch
        from torch._inductor.utils import run_and_get_code

        def chain(x):
            return (x * 2 + 1).tanh().relu()
        _, code = run_and_get_code(torch.compile(chain), torch.randn(64, 64))
        print("kernels:", code[0].count("async_compile.cpp_pybinding("))
    """,
)
def fused_pointwise(device: Hardware) -> Fused:
    """Kernels and operators that the generated code of three chains calls, and eager's kernels.

    As the profiler sees these; on a GPU also what a compiled call launches. The same of a chain of
    complex numbers.
    """
    x = torch.rand(SIDE, SIDE, device=device.torch_device)
    z = torch.ones(SIDE, dtype=torch.complex64, device=device.torch_device)
    generated, operators, launched = {}, {}, {}
    for code, chain in CHAINS.items():
        compiled, generated[code], operators[code] = _compiled(chain, x)
        if device.queues:  # a CPU's profiler does not see fused kernels
            launched[code] = work_of(partial(compiled, x), device).kernels
    _, of_complex, left = _compiled(lambda z: (z * 2 + 1).sin(), z)
    return Fused(
        eager={code: work_of(partial(chain, x), device).kernels for code, chain in CHAINS.items()},
        generated=generated,
        operators=operators,
        launched=launched,
        complex_generated=of_complex,
        complex_operators=left,
    )


def _compiled(function: Function, *arguments: Tensor) -> tuple[Function, int, int]:
    """The compiled function after a first call; kernels and operators that its code calls."""
    compiled = torch.compile(function, fullgraph=True)
    with compiling() as seen:
        compiled(*arguments)
    assert seen.found is not None
    return compiled, seen.found.kernels, seen.found.externs


ROWS = (
    (4096, 1024),
    (64, 16384),
    (8, 262144),
)  # of layers, of long rows, of few and very long ones
LEAST_IN_EAGER = 5


def _handwritten(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias


def _built_in(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, weight.shape, weight, bias)


@dataclass(frozen=True)
class Normed:
    """Kernels that a call launches, by shape."""

    eager: Annotated[Mapping[str, int], "kernels, handwritten in eager, of"]
    compiled: Annotated[Mapping[str, int], "kernels, handwritten and compiled, of"]
    built_in: Annotated[Mapping[str, int], "kernels, torch's own in eager, of"]
    built_in_compiled: Annotated[Mapping[str, int], "kernels, torch's own compiled, of"]


def five_become_one(seen: Normed) -> Verdict:
    """Refuted if a handwritten layer norm is fewer than five kernels in eager.

    Refuted, too, if compiled it is one kernel for less than half of the shapes ("often"). Within
    limits if not for all; else holds.
    """
    for shape, kernels in seen.eager.items():
        if kernels < LEAST_IN_EAGER:
            return refuted("fewer than five in eager", f"{kernels} kernels, {shape} in eager")
    more = {shape: kernels for shape, kernels in seen.compiled.items() if kernels != 1}
    fewest, most = min(seen.eager.values()), max(seen.eager.values())
    told = (
        f"handwritten {fewest if fewest == most else f'{fewest} to {most}'} kernels in eager, one "
        f"when compiled for {len(seen.compiled) - len(more)} of {len(seen.compiled)} shapes; "
        f"torch's own {_list(seen.built_in)}, compiled {_list(seen.built_in_compiled)}"
    )
    limits = [f"{kernels} kernels when compiled, {shape}" for shape, kernels in more.items()]
    if 2 * len(more) > len(seen.compiled):
        return refuted(told, limits[0])
    return within_limits(told, *limits) if limits else holds(told)


def _list(kernels: Mapping[str, int]) -> str:
    return ", ".join(map(str, sorted(set(kernels.values()))))


@claim(
    id="layernorm-kernels",
    statement="a handwritten layer norm in eager is five or more kernels, Inductor often makes it "
    "one (and the built-in one?)",
    source=("003 §9.3 Inductor",),
    needs=("cuda",),
    decide=five_become_one,
    compiles=True,
    limit_s=240,
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
def layernorm_kernels(device: Hardware) -> Normed:
    """Kernels that a call of a layer norm launches, handwritten and torch's own.

    In eager and compiled, for three shapes, as the profiler sees them in a steady call.
    """
    counts: list[dict[str, int]] = [{}, {}, {}, {}]
    for rows, width in ROWS:
        x = torch.rand(rows, width, device=device.torch_device)
        ends = (torch.rand(width, device=device.torch_device) for _ in range(2))
        inputs = (x, *ends)
        torch.compiler.reset()
        kinds = [
            compiled(function)
            for function in (_handwritten, _built_in)
            for compiled in (_as_it_is, torch.compile)
        ]
        for count, function in zip(counts, kinds, strict=True):
            count[f"{rows} × {width}"] = work_of(partial(function, *inputs), device).kernels
    return Normed(*counts)


def _as_it_is(function: Function) -> Function:
    return function
