"""Claims about custom operators (torch.library) under torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.library import custom_op

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.errors import one_line
from modescope.bench.tools.claims.claim import Answer, claim, holds, refuted, undecided
from modescope.bench.tools.claims.measuring import CompilerWork, compiler_work

with suppress(ImportError):  # Triton is not on every machine
    import triton
    import triton.language as tl

Operator = Callable[[Tensor], Tensor]


def _plus_one(x: Tensor) -> Tensor:
    return x + 1


@claim("a custom op without a fake kernel makes a graph break", "003 §10.2 What each piece is for")
def custom_op_no_fake(device: Hardware) -> Answer:
    """The first compiled call of a custom_op without a fake kernel. No code is generated for it.

    import torch
    @torch.library.custom_op("modescope_snippet::plus", mutates_args=())
    def plus(x: torch.Tensor) -> torch.Tensor:
        return x + 1
    try:
        torch.compile(lambda x: plus(x * 2), backend="eager")(torch.ones(2))
    except Exception as error:
        print(type(error).__name__, "no fake impl" in str(error))
    """
    op = custom_op("modescope_claims::plain", _plus_one, mutates_args=())
    try:
        result = torch.compile(lambda x: op(x * 2) * 2, backend="eager")(torch.ones(2))
    except Exception as error:
        origin: BaseException = error
        while earlier := origin.__cause__ or origin.__context__:
            origin = earlier  # the compiler wraps it in errors of its own
        numbers = {"error": one_line(origin)}
        return refuted("it is an error", numbers)
    found = {"result": result.tolist()}
    if result.tolist() != [6.0, 6.0]:
        return refuted("the result is wrong", found)
    return holds("it runs without a fake kernel", found)


@claim(
    "Inductor does not fuse around a Triton custom op, but does not break either",
    "003 §10.3 A Triton kernel as a custom op",
    "cpu cuda inductor",
)
def custom_op_opaque(device: Hardware) -> Answer:
    """Kernels generated for pointwise operators around a custom op.

    The custom op launches a Triton kernel on a GPU. On a CPU it adds by torch, which limits the
    claim. Undecided unless torch's own operator in its place gives a single kernel.

    import torch
    from torch._inductor.utils import run_and_get_code
    @torch.library.custom_op("modescope_snippet::add", mutates_args=())
    def add(x: torch.Tensor) -> torch.Tensor: return x + 1
    add.register_fake(torch.empty_like)
    for op in (add, lambda x: x + 1):
        f = torch.compile(lambda x, op=op: op(x.sin()).cos(), fullgraph=True)
        print("kernels:", run_and_get_code(f, torch.ones(64))[1][0].count("cpp_pybinding("))
    """
    op = _triton_plus_one() if device.queues else _plus_one
    custom = custom_op("modescope_claims::add", op, mutates_args=())
    custom.register_fake(torch.empty_like)
    own, around = _work_around(_plus_one, device), _work_around(custom, device)
    numbers = {
        "kernels with torch's own operator in its place": own.kernels,
        "operators that the generated code calls then": own.externs,
        "graphs": around.graphs,
        "graph breaks": around.breaks,
        "kernels around the custom op": around.kernels,
        "operators that the generated code calls, the custom op among them": around.externs,
    }
    if (own.kernels, own.externs) != (1, 0):
        return undecided("torch's own operator is not fused either", numbers)
    if around != CompilerWork(graphs=1, breaks=0, kernels=2, externs=1):
        return refuted("it breaks the graph, or is fused with others", numbers)
    limits = [] if device.queues else ["the custom op launches no Triton kernel here"]
    because = "it is one graph, with a kernel before the custom op and one behind it"
    return holds(because, numbers, limits)


# Triton looks up each annotation among the names that a kernel may use, and `Any` is none.
def _kernel(source, result, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < count
    tl.store(result + offsets, tl.load(source + offsets, mask=inside) + 1, mask=inside)


def _triton_plus_one() -> Operator:
    kernel: Any = triton.jit(_kernel)

    def launch(x: Tensor) -> Tensor:
        result = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, result, x.numel(), block=1024)
        return result

    return launch


def _work_around(op: Operator, device: Hardware) -> CompilerWork:
    torch.compiler.reset()
    compiled = torch.compile(lambda x: op((x * 2).sin()).cos().relu())
    return compiler_work(partial(compiled, torch.ones(64, 64, device=device.torch_device)))


@claim(
    "a custom op with a registered backward trains, eager and compiled",
    "003 §10.1 Skeleton; 003 Exercise 4",
    "cpu inductor",
)
def custom_op_autograd(device: Hardware) -> Answer:
    """Weights after five training steps with the document's `mylib::clip_norm`, and by torch alone.

    They may differ by up to 1e-5. A backward that gradcheck finds wrong only limits the claim.

    import torch
    @torch.library.custom_op("modescope_snippet::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor: return x * 2
    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda ctx, grad: grad * 2)
    for f in (twice, torch.compile(lambda x: twice(x), backend="aot_eager", fullgraph=True)):
        f(x := torch.ones(3, requires_grad=True)).sum().backward()
        print(x.grad)
    """

    def scale(x: Tensor) -> Tensor:
        return torch.clamp(1.0 / (x.norm() + 1e-12), max=1.0)

    @custom_op("modescope_claims::clip_norm", mutates_args=())
    def clip(x: Tensor) -> Tensor:
        return x * scale(x)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.saved = scale(inputs[0])  # taken for a constant

    clip.register_fake(torch.empty_like)
    clip.register_autograd(lambda ctx, grad: grad * ctx.saved, setup_context=save)
    eager = _train(lambda x: x * scale(x).detach())
    numbers: dict[str, object] = {}
    for how in ("eager", "compiled"):
        try:
            numbers[how] = (_train(clip, how == "compiled") - eager).abs().max().item()
        except Exception as error:
            numbers[how] = one_line(error)
    if not all(isinstance(off, float) and off <= 1e-5 for off in numbers.values()):
        return refuted("it does not train as torch's own operators do", numbers)
    x = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
    exact = torch.autograd.gradcheck(clip, x, raise_exception=False)
    limits = [] if exact else ["its backward is not its derivative, by gradcheck"]
    return holds("it trains as torch's own operators do", numbers, limits)


def _train(op: Operator, compiled: bool = False) -> Tensor:
    """Trains a linear layer followed by `op` for five steps of SGD; returns the layer's weights."""
    torch.compiler.reset()
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)

    def forward(x: Tensor) -> Tensor:
        return op(layer(x))

    step = torch.compile(forward, fullgraph=True) if compiled else forward
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (step(x) - 1).square().mean().backward()
        optimizer.step()
    return layer.weight.detach().clone()
