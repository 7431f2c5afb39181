"""Autocast's casts: which of them are kept."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.case.memory import CASTS
from modescope.bench.tools.claims import lab

LOW = torch.bfloat16
TRAINED = "a parameter with gradients"


def cast_once(o: lab.Observed) -> lab.Rule:
    """Refuted if a parameter with gradients is cast more than once, undecided if it is not cast.

    Each other weight or mode with more than one cast is a limit.
    """
    casts = o.casts[TRAINED]
    yield lab.undecided_if(casts == 0, f"{TRAINED} is not cast at all")
    yield lab.require(f"{TRAINED} is cast once", casts == 1, o.casts.say(TRAINED))
    yield lab.each_a_limit(o.casts.only(lambda _, casts: casts > 1))


@lab.claim(
    "a weight used twice in one autocast forward is cast once",
    "003 §8.2",
    rule=cast_once,
    figures={
        "casts": "casts to bfloat16 of",
        "fresh": lab.should(
            "a parameter that is changed between its uses is used with its new value", True
        ),
    },
    snippet="""
        import torch
        from modescope.bench.tools.claims.chapters.autocast.casts import Counted

        x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode(), torch.autocast("cpu", torch.bfloat16), Counted(w) as casts:
                torch.mm(torch.mm(x, w), w)
            print(mode.__name__, casts.count)
    """,
)
def autocast_cache(device: lab.Hardware) -> lab.Values:
    """How often a weight is cast that two linear layers of one forward share.

    Then whether a parameter that is set to zero between its uses counts as zero in the second.
    """
    w, x = Parameter(torch.ones(4, 4)), torch.ones(4, 4)
    yield {
        TRAINED: _casts(w),
        "a parameter under no_grad": _casts(w, torch.no_grad()),
        "a parameter in inference_mode": _casts(w, torch.inference_mode()),
        "a frozen weight": _casts(torch.ones(4, 4)),
        "a computed weight (no leaf)": _casts(w * 2),
        "a view of a parameter": _casts(w, view=True),
        "a parameter with cache_enabled=False": _casts(w, cached=False),
    }
    with torch.autocast("cpu", LOW):
        linear(x, w)
        with torch.no_grad():
            w.zero_()
        fresh = not linear(x, w).any()
    yield fresh


def _casts(weight: Tensor, context: Any = None, view: bool = False, cached: bool = True) -> int:
    autocast, casts = torch.autocast("cpu", LOW, cache_enabled=cached), Counted(weight)
    with context or nullcontext(), autocast, casts:
        y = linear(torch.ones(4, 4), weight.T if view else weight)
        linear(y, weight.T if view else weight)
    return casts.count


class Counted(TorchDispatchMode):
    """Counts casts of a weight or of a view of it."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        self._storage = weight.untyped_storage()._cdata

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """See torch.utils._python_dispatch."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in CASTS and args[0].untyped_storage()._cdata == self._storage:
            self.count += int(result.dtype != args[0].dtype)
        return result
