"""When is compiled code compiled again? Asked of Dynamo alone, with no kernel generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor
from torch._dynamo import config as dynamo

from bench.claims.capturing import captured
from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware

SIZES = (8, 9, 10, 11, 12)
SMALLEST = (8, 9, 1, 0)  # the last two after the size became dynamic
GRADS = (torch.enable_grad, torch.no_grad, torch.enable_grad, torch.no_grad)

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Recompiled:
    """Graphs compiled so far, after each of several calls."""

    default: Annotated[Counts, f"graphs after calls with {SIZES} rows"]
    smallest: Annotated[Counts, f"graphs after calls with {SMALLEST} rows"]
    columns: Annotated[Counts, "graphs after calls with other rows, then also other columns"]
    limit: Annotated[int, "torch._dynamo.config.recompile_limit"]
    static: Annotated[Counts, "graphs after calls with one more row each, dynamic=False"]
    static_called: Annotated[Counts, "calls of compiled code meanwhile"]
    dynamic: Annotated[Counts, "graphs after calls with one more row each, dynamic=True"]
    grads: Annotated[Counts, "graphs after calls with grad on, off, on, off"]


def static_then_dynamic(seen: Recompiled) -> Verdict:
    """Refuted if a second size does not compile once more, or a third one does.

    Refuted, too, if with dynamic=False a new size compiles nothing below the recompile limit, or
    turning gradients off does not. Within limits if sizes 0 and 1 or another dimension compile
    again, or dynamic=False stops to compile at that limit; else holds.
    """
    if _grown(seen.default) != [True] + [False] * (len(seen.default) - 2):
        return refuted(
            "sizes did not become dynamic with the second one",
            f"calls with {SIZES} rows had compiled {seen.default} graphs",
        )
    first = _each_compiled(seen.static)
    if first < min(seen.limit, len(seen.static)):
        return refuted(
            f"dynamic=False compiled nothing for size {first + 1}, below the limit of {seen.limit}",
            f"graphs after each: {seen.static}",
        )
    if not _grown(seen.grads)[0]:
        return refuted("no_grad compiled nothing", f"graphs with grad on, off: {seen.grads}")
    told = (
        "a second size compiled once more and others did not; under dynamic=False each of the "
        f"first {first} sizes did, and so did the first call under no_grad"
    )
    limits = _limits(seen)
    return within_limits(told, *limits) if limits else holds(told)


def _limits(seen: Recompiled) -> list[str]:
    limits = []
    if any(_grown(seen.smallest)[1:]):
        limits.append("a dynamic size does not stand for 1 and 0: these compile again")
    if _grown(seen.columns)[1]:
        limits.append("another dimension is static until it changes, and then compiles again")
    stopped = seen.static[-1]
    if stopped < len(seen.static):
        in_python = seen.static_called[-1] == stopped
        limits.append(
            f"dynamic=False compiled {stopped} times (recompile_limit {seen.limit}), then "
            + ("ran every other size in Python without an error" if in_python else "no more")
        )
    if any(_grown(seen.grads)[1:]):
        limits.append("grad modes that were seen before compile again")
    return limits


def _each_compiled(counts: Sequence[int]) -> int:
    """How many calls from the first on compiled each."""
    grown = [counts[0] > 0, *_grown(counts)]
    return grown.index(False) if False in grown else len(grown)


def _grown(counts: Sequence[int]) -> list[bool]:
    return [after > before for before, after in pairwise(counts)]


@claim(
    id="recompile-dynamic",
    statement="the first shape is static, a second one makes it dynamic; dynamic=False recompiles "
    "each time; switching grad mode recompiles",
    source=("003 §9.4 Guards and recompilation",),
    needs=("cpu",),
    decide=static_then_dynamic,
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
def recompile_dynamic(device: Hardware) -> Recompiled:
    """Graphs that a backend was given so far, after each of several calls.

    With other sizes, also beyond the recompile limit, and with gradients on and off.
    """
    limit = int(dynamo.recompile_limit)
    more = [torch.ones(rows, 4) for rows in range(2, 2 + limit + 3)]
    static = captured(_doubled, more, dynamic=False)
    return Recompiled(
        default=captured(_doubled, _of(SIZES)).compiled,
        smallest=captured(_doubled, _of(SMALLEST)).compiled,
        columns=captured(_doubled, [torch.ones(8 + i, max(4, 3 + i)) for i in range(4)]).compiled,
        limit=limit,
        static=static.compiled,
        static_called=static.called,
        dynamic=captured(_doubled, more, dynamic=True).compiled,
        grads=captured(_doubled, _of([8] * len(GRADS)), GRADS).compiled,
    )


def _of(rows: Sequence[int]) -> list[Tensor]:
    return [torch.ones(count, 4) for count in rows]


def _doubled(x: Tensor) -> Tensor:
    return x * 2
