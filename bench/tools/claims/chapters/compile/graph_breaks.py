"""Where Dynamo's graphs end: print and .item(). Asked of Dynamo alone, with no kernel generated."""

from __future__ import annotations

import torch
from torch._dynamo import config as dynamo

from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.capturing import captured

STATED = lab.functions(
    "x", ['y = x.sin(); print("hi"); return y.cos()', "y = x.sin(); print(y); return y.cos()"]
)
ELSEWHERE = lab.functions(
    "x",
    {
        "a print as the first statement": 'print("hi"); return x.sin().cos()',
        "a print as the last statement": 'y = x.sin().cos(); print("hi"); return y',
        "a print in a function that it calls": "talking(x.sin()).cos()",
        "a print in a loop": """y = x.sin()
for _ in range(2):
    print("hi")
    y = y.cos()
return y""",
    },
    **lab.functions("y", {"talking": 'print("hi"); return y * 2'}),
)
REORDERED = "print among torch._dynamo.config.reorderable_logging_functions"


@lab.claim(
    "a print makes a graph break, two graphs",
    "003 §9.1 Graph breaks, Inspecting",
    figures={
        "stated": lab.must("graphs and breaks,", (2, 1), "a print makes two graphs"),
        "elsewhere": lab.should(
            "graphs and breaks,", (2, 1), "a print elsewhere makes two graphs, too"
        ),
        "right": lab.must("the result is that of eager,", True),
    },
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
def break_on_print(device: lab.Hardware) -> lab.Values:
    """Graphs of functions that print, lines at which Dynamo broke them, and results."""
    x = [torch.linspace(0, 1, 4)]
    stated = {code: captured(function, x) for code, function in STATED.items()}
    elsewhere = {where: captured(function, x) for where, function in ELSEWHERE.items()}
    with dynamo.patch(reorderable_logging_functions={print}):
        elsewhere[REORDERED] = captured(next(iter(STATED.values())), x)
    yield {code: (each.compiled[-1], each.breaks) for code, each in stated.items()}
    yield {where: (each.compiled[-1], each.breaks) for where, each in elsewhere.items()}
    yield {case: each.right for case, each in (stated | elsewhere).items()}


BRANCHES = lab.functions(
    "x",
    {
        "if x.sum().item() > 0": "x * 2 if x.sum().item() > 0 else x - 1",
        "while x.sum().item() > 1": "while x.sum().item() > 1: x = x / 2\nreturn x - 1",
        "for _ in range(int(x.sum().item()))": (
            "for _ in range(int(x.sum().item())): x = x + 1\nreturn x"
        ),
    },
)
WHERE = lab.functions("x", {"torch.where": "torch.where(x.sum() > 0, x * 2, x - 1)"})
COND = "torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))"
OTHERS = WHERE | lab.functions("x", {"torch.cond": COND})
VALUES = (1.0, -1.0, 3.0)  # of all elements of x


def item_breaks_where_does_not(o: lab.Observed) -> lab.Rule:
    """Refuted if a branch or loop on `.item()` is one graph, or torch.where is not.

    A limit if such a branch is one graph with a switch of torch.
    """
    whole, switched = _whole(o.breaks, o.compiled), _whole(o.switched_breaks, o.switched_compiled)
    branches = whole.only(lambda case, _: case in BRANCHES)
    yield lab.expect(".item() in control flow breaks or compiles again", branches, False)
    yield lab.expect("torch.where is one graph", whole.only(lambda case, _: case in WHERE))
    as_one = switched.only(lambda _, is_whole: is_whole)
    yield lab.each_a_limit(as_one, "with capture_scalar_outputs, ")


def _whole(breaks: lab.Cases, compiled: lab.Cases) -> lab.Cases:
    whole = {case: breaks[case] == 0 and set(compiled[case]) == {1} for case in breaks}
    return lab.Cases(whole, "one graph for all values:")


@lab.claim(
    "`.item()` in control flow breaks or specialises; torch.where does not",
    "003 §9.1 Graph breaks; 003 Exercise 3",
    rule=item_breaks_where_does_not,
    figures={
        "breaks": "breaks,",
        "compiled": "graphs after each of three values,",
        "switched_breaks": "breaks with capture_scalar_outputs,",
        "switched_compiled": "graphs after each value with capture_scalar_outputs,",
    },
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
def break_on_item(device: lab.Hardware) -> lab.Values:
    """Lines that break a graph in the first call, and graphs after calls with three values."""
    tensors = [torch.full((4,), value) for value in VALUES]
    plain = {case: captured(each, tensors) for case, each in (BRANCHES | OTHERS).items()}
    with dynamo.patch(capture_scalar_outputs=True):
        switched = {case: captured(each, tensors) for case, each in BRANCHES.items()}
    for each in (plain, switched):
        yield from lab.columns({case: (made.breaks, made.compiled) for case, made in each.items()})
