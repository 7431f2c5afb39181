"""Which comes first, autograd's kernel or autocast's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted
from bench.claims.probing import probed
from bench.devices import Hardware
from bench.instructions.keys import visited

AUTOCAST, AUTOGRAD = "AutocastCPU", "AutogradCPU"
LOW = torch.bfloat16

# operator -> a call of it with x and a weight w
CALLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "aten::mm": lambda x, w: torch.mm(x, w),
    "aten::addmm": lambda x, w: torch.addmm(x, x, w),
    "aten::bmm": lambda x, w: torch.bmm(x[None], w[None])[0],
}


@dataclass(frozen=True)
class Order:
    """Under autocast to bfloat16, by operator."""

    walked: Annotated[Mapping[str, str], "kernels, as torch's tables say, of"]
    entered: Annotated[Mapping[str, str], "kernels in their place ran in this order, of"]
    lowered: Annotated[Mapping[str, bool], "result is bfloat16, of"]
    cast_recorded: Annotated[Mapping[str, bool], "the history of the result has the cast, of"]
    saved_in: Annotated[str, "type in which mm's operands are saved for the backward"]


def autograd_first(seen: Order) -> Verdict:
    """Refuted if autocast's kernel runs before autograd's, or autograd has the cast on its tape.

    Holds if neither is so for any operator; undecided if autocast did not cast for one, or if
    autograd's kernel was not seen to run.
    """
    idle = [name for name, low in seen.lowered.items() if not low]
    if idle:
        return inconclusive(f"autocast did not cast for {', '.join(idle)}")
    unseen = [name for name, order in seen.entered.items() if AUTOGRAD not in order]
    if unseen:
        return inconclusive(f"autograd's kernel was not seen to run for {', '.join(unseen)}")
    for name, order in seen.entered.items():
        recorded = seen.cast_recorded[name]
        told = [
            *(["autocast's kernel runs before autograd's"] if order.startswith(AUTOCAST) else []),
            *(["autograd's tape has the cast"] if recorded else []),
        ]
        if told:
            return refuted(
                f"{' and '.join(told)}; what mm saves for the backward is {seen.saved_in}",
                f"{name} went through {order}, and its history "
                + ("has the cast of w" if recorded else "does not have the cast"),
            )
    return holds(f"the casts of {', '.join(seen.entered)} came after autograd, in no history")


@claim(
    id="autograd-above-autocast",
    statement="autograd's kernel runs before autocast's",
    source=("003 §1.2, §1.3", "003 §4.6"),
    needs=("cpu",),
    decide=autograd_first,
    snippet="""
        import torch
        from bench.instructions.keys import visited

        x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            print(visited("aten::mm", (x, w)))
            y = torch.mm(x, w)
        print(y.grad_fn.name(), [node.name() for node, _ in y.grad_fn.next_functions if node])
    """,
)
def autograd_above_autocast(device: Hardware) -> Order:
    """The path of three operators under autocast: computed from the active keys and torch's tables.

    And seen by kernels put in place of autocast's and autograd's, which note when they run; and
    whether the history of the result has the cast.
    """
    walked, entered, lowered, recorded = {}, {}, {}, {}
    for name, call in CALLS.items():
        x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
        with torch.autocast("cpu", LOW):
            walked[name] = " → ".join(visited(name, (x, w)))
            y = call(x, w)
            with probed(name, [AUTOCAST, AUTOGRAD]) as seen:
                call(x, w)
        entered[name] = " → ".join(seen)
        lowered[name] = y.dtype == LOW
        recorded[name] = any("ToCopy" in node for node in _history(y.grad_fn))
    return Order(walked, entered, lowered, recorded, _saved_in())


def _history(node: Any) -> list[str]:
    if node is None:
        return []
    below = [name for each, _ in node.next_functions for name in _history(each)]
    return [node.name(), *below]


def _saved_in() -> str:
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
    with torch.autocast("cpu", LOW), saved_tensors_hooks(keep, lambda tensor: tensor):
        torch.mm(x, w)
    return ", ".join(sorted({str(each.dtype) for each in kept}))
