"""What makes Dynamo compile code again; no kernel is generated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch._dynamo import config as dynamo

from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.capturing import captured

SIZES = (8, 9, 10, 11, 12)
SMALLEST = (8, 9, 1, 0)  # the last two after the size became dynamic
GRADS = (torch.enable_grad, torch.no_grad, torch.enable_grad, torch.no_grad)


def below_the_limit_and_once_per_grad_mode(o: lab.Observed) -> lab.Rule:
    """Refuted, too, if with dynamic=False a new size compiles nothing below the recompile limit.

    A limit if it stops compiling at that limit, or if grad modes seen before compile again.
    """
    first = [*_grown((0, *o.static)), False].index(False)
    yield lab.require(
        f"under dynamic=False each of the first {first} sizes compiles",
        first >= min(o.limit, len(o.static)),
        o.say("static"),
        f"dynamic=False compiled nothing for size {first + 1}, below the limit of {o.limit}",
    )
    stopped = o.static[-1] < len(o.static)
    yield lab.limit_if(
        stopped, f"at the limit compiling stops: {o.say('limit', 'static', 'static_called')}"
    )
    yield lab.limit_if(
        any(_grown(o.grads)[1:]), f"grad modes seen before compile again: {o.say('grads')}"
    )


def _grown(counts: Iterable[int]) -> list[bool]:
    return [after > before for before, after in pairwise(counts)]


@lab.claim(
    "the first shape is static, a second one makes it dynamic; dynamic=False recompiles each time; "
    "switching grad mode recompiles",
    "003 §9.4 Guards and recompilation",
    rule=below_the_limit_and_once_per_grad_mode,
    figures={
        "default": lab.must(
            f"graphs after calls with {SIZES} rows",
            lambda counts: _grown(counts) == [True] + [False] * (len(counts) - 2),
            "a second size compiles once more, others do not",
        ),
        "smallest": lab.should(
            f"graphs after calls with {SMALLEST} rows",
            lambda counts: not any(_grown(counts)[1:]),
            "a dynamic size stands for 1 and 0, too",
        ),
        "columns": lab.should(
            "graphs after calls with other rows, then also other columns",
            lambda counts: not _grown(counts)[1],
            "another dimension has become dynamic, too",
        ),
        "limit": "torch._dynamo.config.recompile_limit",
        "static": "graphs after calls with one more row each, dynamic=False",
        "static_called": "calls of compiled code meanwhile",
        "grads": lab.must(
            "graphs after calls with grad on, off, on, off",
            lambda counts: _grown(counts)[0],
            "the first call under no_grad compiles",
        ),
    },
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
def recompile_dynamic(device: lab.Hardware) -> lab.Values:
    """Graphs that a backend was given so far, after each of several calls."""
    doubled = partial(captured, lambda x: x * 2)
    yield doubled(_of(SIZES)).compiled
    yield doubled(_of(SMALLEST)).compiled
    yield doubled([torch.ones(8 + i, max(4, 3 + i)) for i in range(4)]).compiled
    limit = int(dynamo.recompile_limit)
    static = doubled(_of(range(2, 2 + limit + 3)), dynamic=False)
    yield from (limit, static.compiled, static.called)
    yield doubled(_of([8] * len(GRADS)), GRADS).compiled


def _of(rows: Iterable[int]) -> list[Tensor]:
    return [torch.ones(count, 4) for count in rows]
