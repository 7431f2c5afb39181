"""How many kernels are left once Inductor has fused: chains of pointwise operators, layer norms."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.capturing import Function

CHAINS = lab.functions(
    "x",
    {
        "(x * 2 + 1).tanh().relu()": "(x * 2 + 1).tanh().relu()",
        "100 operators in a row": """for i in range(100):
    x = x.sin() if i % 2 else x * 1.5
return x""",
        "a chain with a transpose, a row, casts, in-place steps and torch.where": (
            "y = (x.T * 2).to(torch.float64) + x[:1]; y.add_(1).relu_(); "
            "return torch.where(y > x, y, x.exp()).to(torch.float32).sigmoid()"
        ),
    },
)
COMPLEX = "(z * 2 + 1).sin() of complex numbers"


def one_launch(o: lab.Observed) -> lab.Rule:
    """Refuted, too, if on a GPU a compiled call launches another number of kernels than one."""
    if o.launched:
        yield lab.expect("a compiled call launches one kernel", o.launched, 1)


@lab.claim(
    "Inductor turns a chain of pointwise ops into one kernel",
    "003 §9.3 Inductor",
    needs="cpu cuda",
    compiles=True,
    limit_s=240,
    rule=one_launch,
    figures={
        "generated": lab.must("kernels generated,", 1, "a chain becomes one kernel"),
        "operators": lab.must(
            "operators that the generated code calls,", 0, "its code calls no operator"
        ),
        "launched": "kernels launched by a compiled call,",
        "complex_generated": lab.should(
            f"kernels generated, {COMPLEX}", 1, "a chain of complex numbers becomes one, too"
        ),
        "complex_operators": lab.should(
            f"operators that the generated code calls, {COMPLEX}",
            0,
            "the code of that chain calls no operator, either",
        ),
    },
    snippet="""
        import torch
        from torch._inductor.utils import run_and_get_code

        def chain(x):
            return (x * 2 + 1).tanh().relu()
        _, code = run_and_get_code(torch.compile(chain), torch.randn(64, 64))
        print("kernels:", code[0].count("async_compile.cpp_pybinding("))
    """,
)
def fused_pointwise(device: lab.Hardware) -> lab.Values:
    """Kernels and operators called by the code generated for chains; on a GPU also launches."""
    x = torch.rand(64, 64, device=device.torch_device)
    z = torch.ones(64, dtype=torch.complex64, device=device.torch_device)
    generated, operators, launched = {}, {}, {}
    for code, chain in CHAINS.items():
        compiled, generated[code], operators[code] = _compiled(chain, x)
        if device.queues:  # a CPU's profiler does not see fused kernels
            launched[code] = lab.work_of(partial(compiled, x), device).kernels
    return generated, operators, launched, *_compiled(lambda z: (z * 2 + 1).sin(), z)[1:]


def _compiled(function: Function, x: Tensor) -> tuple[Function, int, int]:
    """The compiled function after a first call; kernels and operators that its code calls."""
    compiled = torch.compile(function, fullgraph=True)
    work = lab.compiler_work(partial(compiled, x))
    return compiled, work.kernels, work.externs


# of layers, of long rows, of few and very long ones
ROWS = ((4096, 1024), (64, 16384), (8, 262144))
NORMS = lab.functions(
    "x, weight, bias",
    {
        "handwritten": """mean = x.mean(-1, keepdim=True)
var = x.var(-1, unbiased=False, keepdim=True)
return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias""",
        "torch's own": "functional.layer_norm(x, weight.shape, weight, bias)",
    },
)


def often_one(o: lab.Observed) -> lab.Rule:
    """Refuted, too, if compiled it is one kernel for less than half of the shapes ("often").

    A limit if not for all.
    """
    more = o.compiled.only(lambda _, kernels: kernels != 1)
    often = 2 * len(more) <= len(o.compiled)
    yield lab.require(
        "compiled it is one kernel for half of the shapes or more", often, more.say_all()
    )
    yield lab.each_a_limit(more)


@lab.claim(
    "a handwritten layer norm in eager is five or more kernels, Inductor often makes it one",
    "003 §9.3 Inductor",
    needs="cuda",
    compiles=True,
    limit_s=240,
    rule=often_one,
    figures={
        "eager": lab.must(
            "kernels, handwritten in eager, of",
            lambda kernels: kernels >= 5,
            "handwritten in eager it is five kernels or more",
        ),
        "compiled": "kernels, handwritten and compiled, of",
        "built_in": "kernels, torch's own in eager, of",
        "built_in_compiled": "kernels, torch's own compiled, of",
    },
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
def layernorm_kernels(device: lab.Hardware) -> lab.Values:
    """Kernels that a steady call of a layer norm launches, as the profiler sees them."""
    counts: list[dict[str, int]] = [{}, {}, {}, {}]
    for rows, width in ROWS:
        shapes = (rows, width), (width,), (width,)
        inputs = [torch.rand(shape, device=device.torch_device) for shape in shapes]
        torch.compiler.reset()
        kinds = [each for norm in NORMS.values() for each in (norm, torch.compile(norm))]
        for count, norm in zip(counts, kinds, strict=True):
            count[f"{rows} × {width}"] = lab.work_of(partial(norm, *inputs), device).kernels
    return counts
