"""Where the compiler's graphs end, what makes it compile again, and how many kernels are left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config, explain

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, holds, refuted, say
from modescope.bench.tools.claims.measuring import compiler_work, work_of


def graphs_after(
    function: Callable[[Tensor], Tensor],
    arguments: Sequence[Tensor],
    modes: Sequence[Callable[[], Any]] = (),
    **how: Any,
) -> tuple[int, ...]:
    """Graphs so far after each call of `function`, compiled anew by torch.compile with `how`.

    Each call is in the grad mode at its place, if there are any. No kernels are generated.
    """
    given: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        given.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend, **how)
    graphs = []
    for argument, mode in zip(arguments, modes or [nullcontext] * len(arguments), strict=True):
        with mode():
            compiled(argument)
        graphs.append(len(given))
    torch.compiler.reset()
    return tuple(graphs)


def print_between(x: Tensor) -> Tensor:
    """Prints between two operators."""
    y = x.sin()
    print("hi")
    return y.cos()


def print_first(x: Tensor) -> Tensor:
    """Prints before any operator."""
    print("hi")
    return x.sin().cos()


def print_last(x: Tensor) -> Tensor:
    """Prints after all operators."""
    y = x.sin().cos()
    print("hi")
    return y


@claim("a print makes a graph break, two graphs", "003 §9.1 Graph breaks, Inspecting")
def break_on_print(device: Hardware) -> Answer:
    """Graphs of functions that print, and their breaks, by torch._dynamo.explain.

    Refuted unless a print between two operators makes two graphs with one break. A print elsewhere
    that does not is a limit.

    import torch
    def f(x):
        y = x.sin()
        print("hi")
        return y.cos()
    found = torch._dynamo.explain(f)(torch.randn(4))
    print(found.graph_count, "graphs,", found.graph_break_count, "break")
    """
    x, numbers = torch.ones(4), {}
    for function in (print_between, print_first, print_last):
        found = explain(function)(x)
        numbers[function.__name__] = found.graph_count, found.graph_break_count
    with config.patch(reorderable_logging_functions={print}):
        found = explain(print_between)(x)
    numbers["with reorderable_logging_functions"] = found.graph_count, found.graph_break_count
    if numbers["print_between"] != (2, 1):
        return refuted("a print between two operators does not make two graphs", numbers, numbers)
    limits = [say({name: count}) for name, count in numbers.items() if count != (2, 1)]
    return holds("a print between two operators makes two graphs", numbers, limits)


def branch(x: Tensor) -> Tensor:
    """Takes a branch by an element."""
    return x * 2 if x.sum().item() > 0 else x - 1


def loop(x: Tensor) -> Tensor:
    """Loops as often as an element says."""
    for _ in range(int(x.sum().item())):
        x = x + 1
    return x


def where(x: Tensor) -> Tensor:
    """The branch without control flow."""
    return torch.where(x.sum() > 0, x * 2, x - 1)


@claim(
    "`.item()` in control flow breaks or specialises; torch.where does not",
    "003 §9.1 Graph breaks; 003 Exercise 3",
)
def break_on_item(device: Hardware) -> Answer:
    """Breaks of a graph in the first call, and graphs after calls with three values.

    Refuted if a branch or a loop on `.item()` is one graph for all values, or torch.where is not.

    import torch
    def branch(x):
        return x * 2 if x.sum().item() > 0 else x - 1
    def where(x):
        return torch.where(x.sum() > 0, x * 2, x - 1)
    for f in (branch, where):
        print(f.__name__, torch._dynamo.explain(f)(torch.ones(4)).graph_break_count, "breaks")
    """
    values = [torch.full((4,), value) for value in (1.0, -1.0, 3.0)]
    numbers: dict[str, object] = {}
    one_graph = []
    for function in (branch, loop, where):
        breaks, graphs = (
            explain(function)(values[0]).graph_break_count,
            graphs_after(function, values),
        )
        numbers[f"breaks, {function.__name__}"] = breaks
        numbers[f"graphs after each value, {function.__name__}"] = graphs
        if breaks == 0 and set(graphs) == {1}:
            one_graph.append(function)
    if one_graph != [where]:
        return refuted("others than torch.where are one graph", numbers, numbers)
    return holds(".item() breaks or compiles again, torch.where is one graph", numbers)


@claim(
    "the first shape is static, a second one makes it dynamic; dynamic=False recompiles each "
    "time; switching grad mode recompiles",
    "003 §9.4 Guards and recompilation",
)
def recompile_dynamic(device: Hardware) -> Answer:
    """Graphs that a backend was given so far, after each of several calls.

    Refuted unless only the second size compiles again, with dynamic=False each size up to the
    recompile limit, and the first call under no_grad. Limits: sizes 1 and 0 compile again, nothing
    does at the recompile limit, known grad modes do.

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
    grads = [torch.enable_grad, torch.no_grad, torch.enable_grad, torch.no_grad]
    graphs = {
        "8 to 12 rows": _doubled([8, 9, 10, 11, 12]),
        "8, 9, 1, 0 rows": _doubled([8, 9, 1, 0]),
        "more rows without dynamic": _doubled(range(2, 13), dynamic=False),
        "grad on, off, on, off": _doubled([8, 8, 8, 8], grads),
    }
    numbers = {f"graphs after calls with {what}": counts for what, counts in graphs.items()}
    sizes, smallest, static, switched = (
        [after > before for before, after in pairwise(counts)] for counts in graphs.values()
    )
    limit = int(config.recompile_limit)
    if not sizes[0] or any(sizes[1:]) or not all(static[: limit - 1]) or not switched[0]:
        return refuted("it compiles after other calls", numbers, numbers)
    limits = []
    if any(smallest[1:]):
        limits.append("sizes of 1 and 0 compile again")
    if not all(static):
        limits.append(f"without dynamic, compiling stops at {limit} graphs")
    if any(switched[1:]):
        limits.append("grad modes seen before compile again")
    return holds("a second size, each one without dynamic, and no_grad compile", numbers, limits)


def _doubled(rows: Sequence[int], modes: Any = (), **how: Any) -> tuple[int, ...]:
    return graphs_after(lambda x: x * 2, [torch.ones(n, 4) for n in rows], modes, **how)


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
)
def fused_pointwise(device: Hardware) -> Answer:
    """Kernels and operators that the code generated for chains calls; on a GPU launches, too.

    Refuted unless that is one kernel, and no operator. A limit if a chain of complex numbers is
    otherwise.

    import torch
    from torch._inductor.utils import run_and_get_code
    def chain(x):
        return (x * 2 + 1).tanh().relu()
    _, code = run_and_get_code(torch.compile(chain), torch.randn(64, 64))
    print("kernels:", code[0].count("async_compile.cpp_pybinding("))
    """
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
        return refuted("a chain is not one kernel", numbers, numbers)
    of_complex = torch.compile(lambda z: (z * 2 + 1).sin(), fullgraph=True)
    work = compiler_work(partial(of_complex, x + 1j))
    limits = [f"complex numbers: {work.externs} other operators"] if work.externs else []
    return holds("each chain becomes one kernel", numbers, limits)


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
)
def layernorm_kernels(device: Hardware) -> Answer:
    """Kernels that a steady call of a layer norm launches, as the profiler sees them.

    Refuted if one in eager launches fewer than five, or a compiled one more than one for most
    shapes. For some shapes that is a limit.

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
    eager, compiled = {}, {}
    for rows, width in ROWS:
        shapes = (rows, width), (width,), (width,)
        inputs = [torch.rand(shape, device=device.torch_device) for shape in shapes]
        torch.compiler.reset()
        fused, label = torch.compile(handwritten), f"kernels of {rows} × {width}"
        eager[f"{label}, eager"] = work_of(partial(handwritten, *inputs), device).kernels
        compiled[f"{label}, compiled"] = work_of(partial(fused, *inputs), device).kernels
    more = {label: kernels for label, kernels in compiled.items() if kernels != 1}
    if min(eager.values()) < 5 or 2 * len(more) > len(compiled):
        return refuted(
            "fewer in eager, or mostly more compiled", eager | compiled, eager | compiled
        )
    limits = [say({label: kernels}) for label, kernels in more.items()]
    return holds("five kernels in eager, often one compiled", eager | compiled, limits)
