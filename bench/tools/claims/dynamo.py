"""Where Dynamo's graphs end, and what makes it compile again. No kernels are generated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config

from modescope.bench.devices.devices import Hardware
from modescope.bench.steps.evidence import graph_break_watch
from modescope.bench.tools.claims.claim import Answer, Value, claim, judged, say

Captured = tuple[tuple[int, ...], int, bool]
"""Graphs so far after each call, lines at which the first call broke, whether results are right."""


def captured(
    function: Callable[[Tensor], Tensor],
    arguments: Sequence[Tensor],
    modes: Sequence[Callable[[], Any]] = (),
    **how: Any,
) -> Captured:
    """Compiles `function` anew, for a backend that generates nothing, and calls it with each.

    In the grad mode at its place, if there are any; `how` goes to torch.compile. What else was
    compiled in this process is forgotten.
    """
    given: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        given.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend, **how)
    graphs, breaks, right = [], [], True
    for argument, mode in zip(arguments, modes or [nullcontext] * len(arguments), strict=True):
        with mode(), graph_break_watch.watch() as broken:
            right &= torch.equal(compiled(argument), function(argument))
        graphs.append(len(given))
        breaks.append(graph_break_watch.count(broken))
    torch.compiler.reset()
    return tuple(graphs), breaks[0], right


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


@claim(
    "a print makes a graph break, two graphs",
    "003 §9.1 Graph breaks, Inspecting",
    snippet="""
        import torch

        def f(x):
            y = x.sin()
            print("hi")
            return y.cos()

        found = torch._dynamo.explain(f)(torch.randn(4))
        print(found.graph_count, "graphs,", found.graph_break_count, "break")
    """,
)
def break_on_print(device: Hardware) -> Answer:
    """Graphs of functions that print, lines at which Dynamo broke them, and results.

    Refuted unless a print between two operators makes two graphs with one break. A print elsewhere
    that does not is a limit.
    """
    x = [torch.linspace(0, 1, 4)]
    found = {each.__name__: captured(each, x) for each in (print_between, print_first, print_last)}
    with config.patch(reorderable_logging_functions={print}):
        found["print_between with reorderable_logging_functions"] = captured(print_between, x)
    numbers = {f"graphs and breaks, {name}": (*graphs, n) for name, (graphs, n, _) in found.items()}
    between, *others = numbers
    stated = numbers[between] == (2, 1) and all(right for _, _, right in found.values())
    limits = [say({each: numbers[each]}) for each in others if numbers[each] != (2, 1)]
    because = "a print between two operators makes two graphs"
    return judged(because, numbers, {} if stated else numbers, limits)


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
    snippet="""
        import torch

        def branch(x):
            return x * 2 if x.sum().item() > 0 else x - 1
        def where(x):
            return torch.where(x.sum() > 0, x * 2, x - 1)

        for f in (branch, where):
            print(f.__name__, torch._dynamo.explain(f)(torch.ones(4)).graph_break_count, "breaks")
    """,
)
def break_on_item(device: Hardware) -> Answer:
    """Lines that break a graph in the first call, and graphs after calls with three values.

    Refuted if a branch or a loop on `.item()` is one graph for all values, or torch.where is not.
    """
    values = [torch.full((4,), value) for value in (1.0, -1.0, 3.0)]
    numbers: dict[str, Value] = {}
    wrong: dict[str, Value] = {}
    for function in (branch, loop, where):
        graphs, breaks, _ = captured(function, values)
        counts: dict[str, Value] = {
            f"breaks, {function.__name__}": breaks,
            f"graphs after each value, {function.__name__}": graphs,
        }
        numbers |= counts
        if (breaks == 0 and set(graphs) == {1}) != (function is where):
            wrong |= counts
    return judged(".item() breaks or compiles again, torch.where is one graph", numbers, wrong)


@claim(
    "the first shape is static, a second one makes it dynamic; dynamic=False recompiles each time; "
    "switching grad mode recompiles",
    "003 §9.4 Guards and recompilation",
    snippet="""
        import torch
        from torch._dynamo.utils import counters

        for dynamic in (None, False):
            torch._dynamo.reset()
            before = counters["stats"]["unique_graphs"]
            f = torch.compile(lambda x: x * 2, backend="eager", dynamic=dynamic)
            for rows in range(8, 13):
                f(torch.ones(rows))
            print(dynamic, counters["stats"]["unique_graphs"] - before, "graphs for 5 sizes")
    """,
)
def recompile_dynamic(device: Hardware) -> Answer:
    """Graphs that a backend was given so far, after each of several calls.

    Refuted unless only the second size compiles again, with dynamic=False each size up to the
    recompile limit, and the first call under no_grad. Limits: sizes 1 and 0 compile again, nothing
    does at the recompile limit, known grad modes do.
    """
    grads = [torch.enable_grad, torch.no_grad, torch.enable_grad, torch.no_grad]
    graphs = {
        "8 to 12 rows": _doubled(_rows(8, 9, 10, 11, 12)),
        "8, 9, 1, 0 rows": _doubled(_rows(8, 9, 1, 0)),
        "more rows without dynamic": _doubled(_rows(*range(2, 13)), dynamic=False),
        "grad on, off, on, off": _doubled(_rows(8, 8, 8, 8), grads),
    }
    return recompiled(graphs, int(config.recompile_limit))


def _doubled(arguments: list[Tensor], modes: Any = (), **how: Any) -> tuple[int, ...]:
    return captured(lambda x: x * 2, arguments, modes, **how)[0]


def _rows(*counts: int) -> list[Tensor]:
    return [torch.ones(count, 4) for count in counts]


def recompiled(graphs: Mapping[str, tuple[int, ...]], limit: int) -> Answer:
    """The verdict on the graphs after each call, by what the calls differ in."""
    numbers = {f"graphs after calls with {what}": each for what, each in graphs.items()}
    sizes, smallest, static, switched = (_grown(each) for each in graphs.values())
    below = static[: limit - 1]
    stated = sizes[0] and not any(sizes[1:]) and all(below) and switched[0]
    limits = ["sizes of 1 and 0 compile again"] if any(smallest[1:]) else []
    limits += [] if all(static) else [f"without dynamic, compiling stops at {limit} graphs"]
    limits += ["grad modes seen before compile again"] if any(switched[1:]) else []
    because = "a second size, each one without dynamic, and no_grad compile"
    return judged(because, numbers, {} if stated else numbers, limits)


def _grown(counts: Iterable[int]) -> list[bool]:
    return [after > before for before, after in pairwise(counts)]
