"""Custom operators (torch.library) under torch.compile: without a fake kernel, fused, trained."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.errors import one_line
from modescope.bench.steps.evidence import graph_break_watch
from modescope.bench.tools.claims.claim import Answer, claim, judged, undecided
from modescope.bench.tools.claims.measuring import CompilerWork, compiler_work

NAMESPACE = "modescope_claims"
Operator = Callable[[Tensor], Tensor]


def plus_one(name: str) -> Any:
    """The document's skeleton without its second step."""
    return torch.library.custom_op(f"{NAMESPACE}::{name}", _plus_one, mutates_args=())


def _plus_one(x: Tensor) -> Tensor:
    return x + 1


@claim(
    "a custom op without a fake kernel makes a graph break",
    "003 §10.2 What each piece is for",
    snippet="""
        import torch

        @torch.library.custom_op("modescope_snippet::plus", mutates_args=())
        def plus(x: torch.Tensor) -> torch.Tensor:
            return x + 1
        try:
            torch.compile(lambda x: plus(x * 2), backend="eager")(torch.ones(2))
        except Exception as error:
            print(type(error).__name__, "no fake impl" in str(error))
    """,
)
def custom_op_no_fake(device: Hardware) -> Answer:
    """A first compiled call of a custom_op without a fake kernel; no code is generated for it.

    Refuted unless it breaks the graph, with the right result.
    """
    op = plus_one("plain")
    torch.compiler.reset()
    compiled = torch.compile(lambda x: op(x * 2) * 2, backend="eager")
    try:
        with graph_break_watch.watch() as broken:
            result = compiled(torch.ones(2))
    except Exception as error:
        origin: BaseException = error
        while earlier := origin.__cause__ or origin.__context__:
            origin = earlier  # the compiler wraps it in errors of its own
        return judged("it breaks the graph", {"error": one_line(origin)}, one_line(origin))
    right = torch.equal(result, torch.full((2,), 6.0))
    numbers = {"graph breaks": graph_break_watch.count(broken), "right result": right}
    wrong = {} if numbers["graph breaks"] and right else numbers
    return judged("it breaks the graph", numbers, wrong)


@claim(
    "Inductor does not fuse around a Triton custom op, but does not break either",
    "003 §10.3 A Triton kernel as a custom op",
    needs="cpu cuda inductor",
    snippet="""
        import torch
        from torch._inductor.utils import run_and_get_code

        @torch.library.custom_op("modescope_snippet::add", mutates_args=())
        def add(x: torch.Tensor) -> torch.Tensor: return x + 1
        add.register_fake(torch.empty_like)
        for op in (add, lambda x: x + 1):
            f = torch.compile(lambda x, op=op: op(x.sin()).cos(), fullgraph=True)
            print("kernels:", run_and_get_code(f, torch.ones(64))[1][0].count("cpp_pybinding("))
    """,
)
def custom_op_opaque(device: Hardware) -> Answer:
    """Kernels generated for pointwise operators around a custom op.

    On a GPU it launches a Triton kernel, on a CPU it adds by torch, which is a limit. Refuted
    unless there is one graph without a break, a kernel before the op and one behind it. Undecided
    unless with torch's own operator in its place it is one kernel.
    """
    if device.queues:
        from modescope.bench.tools.claims import triton_ops  # Triton is not on every machine

        op = triton_ops.custom_op(f"{NAMESPACE}::triton")
    else:
        op = plus_one("with_fake")
        op.register_fake(torch.empty_like)
    own, custom = _around(_plus_one, device), _around(op, device)
    return fused_around(own, custom, is_triton=device.queues)


def _around(op: Operator, device: Hardware) -> CompilerWork:
    """What is generated for the operator with others before and behind it."""
    torch.compiler.reset()
    compiled = torch.compile(lambda x: op((x * 2).sin()).cos().relu())
    x = torch.ones(64, 64, device=device.torch_device)
    return compiler_work(partial(compiled, x))


def fused_around(own: CompilerWork, custom: CompilerWork, is_triton: bool) -> Answer:
    """The verdict on what is generated around torch's own operator and around a custom op."""
    numbers = {
        "kernels with torch's own operator in its place": own.kernels,
        "operators that the generated code calls then": own.externs,
        "graphs": custom.graphs,
        "graph breaks": custom.breaks,
        "kernels around the custom op": custom.kernels,
        "operators that the generated code calls, the custom op among them": custom.externs,
    }
    if (own.kernels, own.externs) != (1, 0):
        return undecided("torch's own operator is not fused either", numbers)
    wrong = {} if custom == CompilerWork(1, 0, 2, 1) else numbers
    limits = [] if is_triton else ["the custom op launches no Triton kernel here"]
    because = "it is one graph, with a kernel before the custom op and one behind it"
    return judged(because, numbers, wrong, limits)


def _scale(x: Tensor) -> Tensor:
    scale: Tensor = 1.0 / (x.norm() + 1e-12)
    return scale.clamp(max=1.0)


def clip_norm() -> Operator:
    """`mylib::clip_norm` of the document, whose backward takes the scale for a constant."""

    @torch.library.custom_op(f"{NAMESPACE}::clip_norm", mutates_args=())
    def clip(x: Tensor) -> Tensor:
        return x * _scale(x)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.saved = _scale(inputs[0])

    clip.register_fake(torch.empty_like)
    clip.register_autograd(lambda ctx, grad: grad * ctx.saved, setup_context=save)
    return clip


@claim(
    "a custom op with a registered backward trains, eager and compiled",
    "003 §10.1 Skeleton; 003 Exercise 4",
    needs="cpu inductor",
    snippet="""
        import torch

        @torch.library.custom_op("modescope_snippet::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor: return x * 2
        twice.register_fake(torch.empty_like)
        twice.register_autograd(lambda ctx, grad: grad * 2)
        for f in (twice, torch.compile(lambda x: twice(x), backend="aot_eager", fullgraph=True)):
            f(x := torch.ones(3, requires_grad=True)).sum().backward()
            print(x.grad)
    """,
)
def custom_op_autograd(device: Hardware) -> Answer:
    """Weights of a linear layer trained for five steps before the document's `mylib::clip_norm`.

    Refuted unless in eager and compiled they are those with torch's own operators, to 1e-5. A
    backward that is not the derivative, by gradcheck, is a limit.
    """
    op, expected = clip_norm(), _trained(lambda x: x * _scale(x).detach())
    numbers: dict[str, float | str] = {}
    for how, compile_ in (("eager", nothing), ("compiled", torch.compile(fullgraph=True))):
        try:
            off = (_trained(op, compile_) - expected).abs().max().item()
            numbers[f"largest difference of weights, {how}"] = off
        except Exception as error:
            numbers[f"error, {how}"] = one_line(error)
    because = "it trains as torch's own operators do"
    if not all(isinstance(off, float) and off <= 1e-5 for off in numbers.values()):
        return judged(because, numbers, numbers)
    x = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
    exact = torch.autograd.gradcheck(op, x, raise_exception=False)
    limits = [] if exact else ["its backward is not its derivative, by gradcheck"]
    return judged(because, numbers, {}, limits)


def nothing(step: Operator) -> Operator:
    """Eager: what does not compile."""
    return step


def _trained(op: Operator, compile_: Callable[[Operator], Operator] = nothing) -> Tensor:
    """Weights of a layer before the operator after five steps of SGD."""
    torch.compiler.reset()
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    forward = compile_(lambda x: op(layer(x)))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (forward(x) - 1).square().mean().backward()
        optimizer.step()
    return layer.weight.detach().clone()
