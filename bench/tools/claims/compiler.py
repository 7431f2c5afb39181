"""Claims about torch.compile: graph breaks, recompilation, and how many kernels are left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config, explain
from torch._dynamo.testing import CompileCounter

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, holds, refuted, say
from modescope.bench.tools.claims.measuring import compiler_work, work_of


@claim("a print makes a graph break, two graphs", "003 §9.1 Graph breaks, Inspecting")
def break_on_print(device: Hardware) -> Answer:
    """Graphs and breaks that torch._dynamo.explain finds in functions that print.

    If a print before all operators does not make two graphs, that only limits the claim.

    import torch
    def f(x):
        y = x.sin()
        print("hi")
        return y.cos()
    found = torch._dynamo.explain(f)(torch.randn(4))
    print(found.graph_count, "graphs,", found.graph_break_count, "break")
    """

    def between(x: Tensor) -> Tensor:
        y = x.sin()
        print("hi")
        return y.cos()

    def before(x: Tensor) -> Tensor:
        print("hi")
        return x.sin().cos()

    found = [explain(function)(torch.ones(4)) for function in (between, before)]
    between_two, before_all = [(told.graph_count, told.graph_break_count) for told in found]
    numbers = {"graphs, breaks": between_two, "with the print before all operators": before_all}
    if between_two != (2, 1):
        return refuted("a print between two operators does not make two graphs", numbers)
    limits = [] if before_all == (2, 1) else ["a print before all operators makes no two graphs"]
    return holds("a print between two operators makes two graphs", numbers, limits)


@claim(
    "`.item()` in control flow breaks or specialises; torch.where does not",
    "003 §9.1 Graph breaks; 003 Exercise 3",
)
def break_on_item(device: Hardware) -> Answer:
    """Graph breaks in the first call, and the number of graphs after each of three calls.

    import torch
    def branch(x):
        return x * 2 if x.sum().item() > 0 else x - 1
    def where(x):
        return torch.where(x.sum() > 0, x * 2, x - 1)
    for f in (branch, where):
        print(f.__name__, torch._dynamo.explain(f)(torch.ones(4)).graph_break_count, "breaks")
    """

    def branch(x: Tensor) -> Tensor:
        return x * 2 if x.sum().item() > 0 else x - 1

    def loop(x: Tensor) -> Tensor:
        for _ in range(int(x.sum().item())):
            x = x + 1
        return x

    def where(x: Tensor) -> Tensor:
        return torch.where(x.sum() > 0, x * 2, x - 1)

    values = [torch.full((4,), value) for value in (1.0, -1.0, 3.0)]
    numbers: dict[str, object] = {}
    one_graph = []
    for function in (branch, loop, where):
        breaks = explain(function)(values[0]).graph_break_count
        graphs = graphs_after(function, values)
        numbers[f"breaks, graphs after each value, {function.__name__}"] = breaks, graphs
        if breaks == 0 and set(graphs) == {1}:
            one_graph.append(function)
    if one_graph != [where]:
        return refuted("others than torch.where are one graph", numbers)
    return holds(".item() breaks or compiles again, torch.where is one graph", numbers)


@claim(
    "the first shape is static, a second one makes it dynamic; dynamic=False recompiles each "
    "time; switching grad mode recompiles",
    "003 §9.4 Guards and recompilation",
)
def recompile_dynamic(device: Hardware) -> Answer:
    """The number of graphs that torch.compile has made after each of several calls.

    That compiling stops at the recompile limit only limits the claim.

    import torch
    from torch._dynamo.utils import counters
    for dynamic in (None, False):
        torch._dynamo.reset()
        before = counters["stats"]["unique_graphs"]
        f = torch.compile(lambda x: x * 2, backend="eager", dynamic=dynamic)
        for rows in range(8, 13):
            f(torch.ones(rows))
        print(dynamic, counters["stats"]["unique_graphs"] - before, "graphs for 5 sizes")
    """

    def double(x: Tensor) -> Tensor:
        return x * 2

    grads = [torch.enable_grad, torch.no_grad]
    sizes = [torch.ones(rows, 4) for rows in range(2, 13)]
    graphs = {
        "for 2 to 12 rows": graphs_after(double, sizes),
        "for 2 to 12 rows, dynamic=False": graphs_after(double, sizes, dynamic=False),
        "with gradients, under no_grad": graphs_after(double, sizes[:1] * 2, grads),
    }
    automatic, static, switched = graphs.values()
    limit = int(config.recompile_limit)
    every = tuple(range(1, len(sizes) + 1))
    if set(automatic[1:]) != {2} or static[:limit] != every[:limit] or switched != (1, 2):
        return refuted("it compiles after other calls", graphs)
    limits = [] if static == every else [f"with dynamic=False, compiling stops at {limit} graphs"]
    return holds("a second size, each one if not dynamic, and no_grad compile", graphs, limits)


def graphs_after(
    function: Callable[[Tensor], Tensor],
    arguments: list[Tensor],
    modes: Sequence[Any] = (),
    dynamic: bool | None = None,
) -> tuple[int, ...]:
    """Compiles `function`; returns the number of graphs so far after a call with each argument.

    `modes` has a grad mode for each call. No kernels are generated.
    """
    counter, graphs = CompileCounter(), []
    torch.compiler.reset()
    compiled = torch.compile(function, backend=counter, dynamic=dynamic)
    for argument, mode in zip(arguments, modes or [nullcontext] * len(arguments), strict=True):
        with mode():
            compiled(argument)
        graphs.append(counter.frame_count)
    return tuple(graphs)


@claim(
    "Inductor turns a chain of pointwise ops into one kernel",
    "003 §9.3 Inductor",
    "cpu cuda inductor",
)
def fused_pointwise(device: Hardware) -> Answer:
    """Kernels and operators that generated code calls for two chains; on a GPU launches, too.

    If the code for a chain on complex numbers calls operators, that only limits the claim.

    import torch
    from torch._inductor.utils import run_and_get_code
    def chain(x):
        return (x * 2 + 1).tanh().relu()
    _, code = run_and_get_code(torch.compile(chain), torch.randn(64, 64))
    print("kernels:", code[0].count("async_compile.cpp_pybinding("))
    """

    def short(x: Tensor) -> Tensor:
        return (x * 2 + 1).tanh().relu()

    def mixed(x: Tensor) -> Tensor:
        y = (x.T * 2).to(torch.float64) + x[:1]
        y.add_(1).relu_()
        return torch.where(y > x, y, x.exp()).to(torch.float32).sigmoid()

    x = torch.rand(64, 64, device=device.torch_device)
    numbers: dict[str, int] = {}
    for chain in (short, mixed):
        compiled = torch.compile(chain, fullgraph=True)
        work = compiler_work(partial(compiled, x))
        numbers[f"kernels, {chain.__name__}"] = work.kernels
        numbers[f"other operators, {chain.__name__}"] = work.externs
        if device.queues:  # a CPU's profiler does not see fused kernels
            numbers[f"launches, {chain.__name__}"] = work_of(partial(compiled, x), device).kernels
    if any(count != (not label.startswith("other")) for label, count in numbers.items()):
        return refuted("a chain is not one kernel", numbers)
    of_complex = torch.compile(lambda z: (z * 2 + 1).sin(), fullgraph=True)
    work = compiler_work(partial(of_complex, x + 1j))
    limits = [f"complex numbers: {work.externs} other operators"] if work.externs else []
    return holds("each chain becomes one kernel", numbers, limits)


@claim(
    "a handwritten layer norm in eager is five or more kernels, Inductor often makes it one",
    "003 §9.3 Inductor",
    "cuda inductor",
)
def layernorm_kernels(device: Hardware) -> Answer:
    """Kernels that a steady call launches, as the profiler sees them.

    "Often" is taken to mean: for at least half of the shapes.

    import torch
    from torch.profiler import ProfilerActivity, profile
    def norm(x):
        return (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * 2 + 1
    x, compiled = torch.randn(4096, 1024, device="cuda"), torch.compile(norm)
    for f in (norm, compiled):
        f(x).sum().item()
        with profile(activities=[ProfilerActivity.CUDA]) as seen: f(x).cpu()
        print(sum("CUDA" in str(e.device_type) for e in seen.events()), "kernels and copies")
    """

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias

    eager, compiled = {}, {}
    for rows, width in ((4096, 1024), (64, 16384), (8, 262144)):
        shapes = (rows, width), (width,), (width,)
        inputs = [torch.rand(shape, device=device.torch_device) for shape in shapes]
        torch.compiler.reset()
        fused, label = torch.compile(norm), f"kernels of {rows} × {width}"
        eager[f"{label}, eager"] = work_of(partial(norm, *inputs), device).kernels
        compiled[f"{label}, compiled"] = work_of(partial(fused, *inputs), device).kernels
    limits = [say({label: kernels}) for label, kernels in compiled.items() if kernels != 1]
    if min(eager.values()) < 5 or 2 * len(limits) > len(compiled):
        return refuted("fewer in eager, or mostly more compiled", eager | compiled)
    return holds("five kernels in eager, often one compiled", eager | compiled, limits)
