"""What Dynamo makes of a function, with a backend that generates no kernels and only counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from modescope.bench.steps.evidence import graph_break_watch

Function = Callable[..., Tensor]
Context = Callable[[], AbstractContextManager[Any]]


@dataclass
class CountingBackend:
    """A backend that runs each graph as Dynamo captured it, and counts."""

    compiled: int = 0  # graphs that it was given
    called: int = 0  # calls of them

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """What torch.compile asks of a backend."""
        self.compiled += 1

        def run(*arguments: Any) -> Any:
            self.called += 1
            return graph(*arguments)

        return run


@dataclass(frozen=True)
class Captured:
    """What Dynamo made of calls one after the other."""

    breaks: int  # lines at which a graph broke, in the first call
    compiled: tuple[int, ...]  # graphs so far, after each call
    called: tuple[int, ...]  # calls of graphs so far, after each
    right: bool  # whether all returned what the function does without a compiler


def captured(
    function: Function, arguments: Sequence[Tensor], contexts: Sequence[Context] = (), **how: Any
) -> Captured:
    """Compiles `function` anew and calls it with each of `arguments`.

    Within each of `contexts`, where there are any; `how` goes to torch.compile. What else was
    compiled in this process is forgotten.
    """
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(function, backend=backend, **how)
    breaks, counts, calls, rights = [], [], [], []
    for position, each in enumerate(arguments):
        context = contexts[position]() if contexts else nullcontext()
        with context, graph_break_watch.watch() as broken:
            rights.append(torch.equal(compiled(each), function(each)))
        breaks.append(graph_break_watch.count(broken))
        counts.append(backend.compiled)
        calls.append(backend.called)
    torch.compiler.reset()
    return Captured(breaks[0], tuple(counts), tuple(calls), all(rights))
