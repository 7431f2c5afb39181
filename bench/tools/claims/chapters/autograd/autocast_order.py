"""Which comes first, autograd's kernel or autocast's."""

from __future__ import annotations

from typing import Any

import torch

from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.probing import probed

AUTOCAST, AUTOGRAD = "AutocastCPU", "AutogradCPU"

# operator -> a call of it with x and a weight w
CALLS = lab.functions(
    "x, w",
    {
        "aten::mm": "torch.mm(x, w)",
        "aten::addmm": "torch.addmm(x, x, w)",
        "aten::bmm": "torch.bmm(x[None], w[None])[0]",
    },
)


@lab.claim(
    "autograd's kernel runs before autocast's",
    "003 §1.2, §1.3; 003 §4.6",
    figures={
        "lowered": lab.given("the result is bfloat16,", True),
        "seen": lab.given("autograd's kernel is seen to run,", True),
        "entered": lab.must(
            "kernels in their place ran in this order, of",
            lambda order: order.startswith(AUTOGRAD),
            "autograd's kernel runs first",
            "autocast's kernel runs first",
        ),
        "no_cast": lab.must(
            "the history of the result has no cast, of", True, "no cast is on autograd's tape"
        ),
    },
    snippet="""
        import torch
        from modescope.bench.tools.claims.probing import visited

        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            print(visited("aten::mm", (x, w)))
            y = torch.mm(x, w)
        print(y.grad_fn.name(), [node.name() for node, _ in y.grad_fn.next_functions if node])
    """,
)
def autograd_above_autocast(device: lab.Hardware) -> lab.Values:
    """Which of autocast's and autograd's kernels ran first in three operators under autocast.

    As noted by kernels put in their place; and whether the history of the result has the cast.
    """
    rows = {}
    for name, call in CALLS.items():
        x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
        with torch.autocast("cpu", torch.bfloat16):
            y = call(x, w)
            with probed(name, [AUTOCAST, AUTOGRAD]) as kernels_run:
                call(x, w)
        order, no_cast = " → ".join(kernels_run), "ToCopy" not in _history(y.grad_fn)
        rows[name] = (y.dtype == torch.bfloat16, AUTOGRAD in kernels_run, order, no_cast)
    return lab.columns(rows)


def _history(node: Any) -> str:
    return str(node.name()) + "".join(_history(each) for each, _ in node.next_functions if each)
