"""Where Dynamo's graphs end: print and .item(). Asked of Dynamo alone, with no kernel generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torch._dynamo import config as dynamo

from bench.claims.capturing import Captured, Function, captured
from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware


def _as_stated(x: Tensor) -> Tensor:
    y = x.sin()
    print("hi")
    return y.cos()


def _of_a_tensor(x: Tensor) -> Tensor:
    y = x.sin()
    print(y)
    return y.cos()


def _first(x: Tensor) -> Tensor:
    print("hi")
    return x.sin().cos()


def _last(x: Tensor) -> Tensor:
    y = x.sin().cos()
    print("hi")
    return y


def _talking(y: Tensor) -> Tensor:
    print("hi")
    return y * 2


def _called(x: Tensor) -> Tensor:
    return _talking(x.sin()).cos()


def _in_a_loop(x: Tensor) -> Tensor:
    y = x.sin()
    for _ in range(2):
        print("hi")
        y = y.cos()
    return y


STATED: dict[str, Function] = {
    'y = x.sin(); print("hi"); return y.cos()': _as_stated,
    "y = x.sin(); print(y); return y.cos()": _of_a_tensor,
}
ELSEWHERE: dict[str, Function] = {
    "a print as the first statement": _first,
    "a print as the last statement": _last,
    "a print in a function that it calls": _called,
    "a print in a loop": _in_a_loop,
}
REORDERED = "print among torch._dynamo.config.reorderable_logging_functions"


@dataclass(frozen=True)
class Printed:
    """Graphs and breaks of functions that print."""

    stated: Annotated[Mapping[str, tuple[int, int]], "graphs and breaks,"]
    elsewhere: Annotated[Mapping[str, tuple[int, int]], "graphs and breaks,"]
    right: Annotated[Mapping[str, bool], "result is that of eager,"]


def print_breaks(seen: Printed) -> Verdict:
    """Refuted if a print between two operators makes anything but one break and two graphs.

    Refuted, too, if a function that prints then returns something else than in eager. Within limits
    if elsewhere (at an end, in a function that is called, in a loop) or with a switch of torch it
    makes another number; else holds.
    """
    for code, (graphs, breaks) in seen.stated.items():
        if (graphs, breaks) != (2, 1):
            return refuted("it did not break in two", f"{code}: {_told(graphs, breaks)}")
    wrong = [where for where, right in seen.right.items() if not right]
    if wrong:
        return refuted("a function that prints returned something else than in eager", wrong[0])
    told = "a print between two operators made one break and two graphs"
    limits = [
        f"{where}: {_told(graphs, breaks)}"
        for where, (graphs, breaks) in seen.elsewhere.items()
        if (graphs, breaks) != (2, 1)
    ]
    return within_limits(told, *limits) if limits else holds(told)


def _told(graphs: int, breaks: int) -> str:
    if not graphs:
        return "no graph at all, everything runs in Python"
    return f"{_many(graphs, 'graph')}, {_many(breaks, 'break')}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@claim(
    id="break-on-print",
    statement="a print makes a graph break, two graphs",
    source=("003 §9.1 Graph breaks, Inspecting",),
    needs=("cpu",),
    decide=print_breaks,
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
def break_on_print(device: Hardware) -> Printed:
    """Graphs of the document's function, and lines at which Dynamo broke them.

    And of functions that print elsewhere, and with print among the functions that Dynamo may put
    off until the graph's end.
    """
    x = torch.linspace(0, 1, 4)
    stated = {code: captured(function, [x]) for code, function in STATED.items()}
    elsewhere = {where: captured(function, [x]) for where, function in ELSEWHERE.items()}
    with dynamo.patch(reorderable_logging_functions={print}):
        elsewhere[REORDERED] = captured(_as_stated, [x])
    return Printed(
        _counts(stated),
        _counts(elsewhere),
        {what: each.right for what, each in {**stated, **elsewhere}.items()},
    )


def _counts(found: Mapping[str, Captured]) -> dict[str, tuple[int, int]]:
    return {what: (each.compiled[-1], each.breaks) for what, each in found.items()}


def _if_item(x: Tensor) -> Tensor:
    if x.sum().item() > 0:
        return x * 2
    return x - 1


def _while_item(x: Tensor) -> Tensor:
    while x.sum().item() > 1:
        x = x / 2
    return x - 1


def _range_item(x: Tensor) -> Tensor:
    for _ in range(int(x.sum().item())):
        x = x + 1
    return x


def _where(x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, x * 2, x - 1)


def _cond(x: Tensor) -> Tensor:
    chosen: Tensor = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
    return chosen


BRANCHING: dict[str, Function] = {
    "if x.sum().item() > 0": _if_item,
    "while x.sum().item() > 1": _while_item,
    "for _ in range(int(x.sum().item()))": _range_item,
}
WHERE = "torch.where(x.sum() > 0, x * 2, x - 1)"
VALUES = (1.0, -1.0, 3.0)  # of all elements of x


@dataclass(frozen=True)
class Branched:
    """What became of functions called with three tensors that take them other ways."""

    breaks: Annotated[Mapping[str, int], "breaks,"]
    compiled: Annotated[Mapping[str, tuple[int, ...]], "graphs after each of three values,"]
    switched_breaks: Annotated[Mapping[str, int], "breaks with capture_scalar_outputs,"]
    switched_compiled: Annotated[
        Mapping[str, tuple[int, ...]], "graphs after each value with capture_scalar_outputs,"
    ]
    where_breaks: Annotated[int, "breaks, torch.where"]
    where_compiled: Annotated[tuple[int, ...], "graphs after each value, torch.where"]
    cond_breaks: Annotated[int, "breaks, torch.cond"]
    cond_compiled: Annotated[tuple[int, ...], "graphs after each value, torch.cond"]


def item_breaks_where_does_not(seen: Branched) -> Verdict:
    """Refuted if a branch or loop on `.item()` is one graph for all values.

    Refuted, too, if torch.where breaks or compiles again for another value. Within limits if such a
    branch is one graph only with a switch of torch; else holds.
    """
    whole = _whole(seen.breaks, seen.compiled)
    if whole:
        return refuted("a branch was captured whole", f"{whole[0]}: one graph, no break")
    if not _is_whole(seen.where_breaks, seen.where_compiled):
        told = _told(seen.where_compiled[-1], seen.where_breaks)
        return refuted("torch.where was not captured whole", f"{WHERE}: {told}")
    told = (
        f"{len(seen.breaks)} branches and loops on .item() broke or were compiled again for "
        "another value, torch.where stayed one graph"
    )
    switched = _whole(seen.switched_breaks, seen.switched_compiled)
    limits = [f"{code} is one graph with capture_scalar_outputs" for code in switched]
    return within_limits(told, *limits) if limits else holds(told)


def _is_whole(breaks: int, compiled: Sequence[int]) -> bool:
    return breaks == 0 and set(compiled) == {1}


def _whole(breaks: Mapping[str, int], compiled: Mapping[str, Sequence[int]]) -> list[str]:
    return [code for code in breaks if _is_whole(breaks[code], compiled[code])]


@claim(
    id="break-on-item",
    statement="`.item()` in control flow breaks or specialises; torch.where does not",
    source=("003 §9.1 Graph breaks", "003 Exercise 3"),
    needs=("cpu",),
    decide=item_breaks_where_does_not,
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
def break_on_item(device: Hardware) -> Branched:
    """Lines that break a graph in the first call, and graphs after calls with three values.

    Of branches and loops on `.item()`, as torch is set and with capture_scalar_outputs (of
    torch._dynamo.config), and of the same with torch.where and torch.cond.
    """
    tensors = [torch.full((4,), value) for value in VALUES]
    found = {code: captured(function, tensors) for code, function in BRANCHING.items()}
    with dynamo.patch(capture_scalar_outputs=True):
        switched = {code: captured(function, tensors) for code, function in BRANCHING.items()}
    where, cond = captured(_where, tensors), captured(_cond, tensors)
    return Branched(
        breaks={code: each.breaks for code, each in found.items()},
        compiled={code: each.compiled for code, each in found.items()},
        switched_breaks={code: each.breaks for code, each in switched.items()},
        switched_compiled={code: each.compiled for code, each in switched.items()},
        where_breaks=where.breaks,
        where_compiled=where.compiled,
        cond_breaks=cond.breaks,
        cond_compiled=cond.compiled,
    )
