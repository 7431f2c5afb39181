"""Autocast's casts: which of them are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode

from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.devices import Hardware
from bench.memory.reading import CASTS

LOW = torch.bfloat16
TRAINED = "a parameter with gradients"


@dataclass(frozen=True)
class Use:
    """A weight that one forward uses twice under autocast."""

    weight: Callable[[], Tensor] = lambda: Parameter(torch.ones(4, 4))
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    cached: bool = True
    each: Callable[[Tensor], Tensor] = lambda weight: weight


USES = {
    TRAINED: Use(),
    "a parameter under no_grad": Use(context=torch.no_grad),
    "a parameter in inference_mode": Use(context=torch.inference_mode),
    "a frozen weight": Use(lambda: torch.ones(4, 4)),
    "a computed weight (no leaf)": Use(lambda: Parameter(torch.ones(4, 4)) * 2),
    "a view of a parameter": Use(each=lambda weight: weight.T),
    "a parameter with cache_enabled=False": Use(cached=False),
}


@dataclass(frozen=True)
class Casts:
    """Of weights that are used twice."""

    casts: Annotated[Mapping[str, int], "casts to bfloat16 of"]
    stale: Annotated[bool, "a parameter changed between its uses is used as it was"]


def cast_once(seen: Casts) -> Verdict:
    """Refuted if a parameter in training is cast more than once.

    Within limits if that is so for other weights or modes alone, or if a change of the weight
    between its uses goes unnoticed; undecided if it is not cast at all; else holds.
    """
    trained = seen.casts[TRAINED]
    if trained == 0:
        return inconclusive("a parameter in training is not cast at all")
    if trained > 1:
        return refuted("each use casts", f"{TRAINED} is cast {trained} times")
    once = [what for what, casts in seen.casts.items() if casts == 1]
    told = f"cast once: {', '.join(once)}"
    often = [what for what, casts in seen.casts.items() if casts > 1]
    limits = [f"cast at each use: {', '.join(often)}"] if often else []
    if seen.stale:
        limits.append("a parameter that is changed in place between its uses is used as it was")
    return within_limits(told, *limits) if limits else holds(told)


@claim(
    id="autocast-cache",
    statement="a weight used twice in one autocast forward is cast once",
    source=("003 §8.2",),
    needs=("cpu",),
    decide=cast_once,
    snippet="""
        import torch
        from bench.claims.chapters.autocast import Counted

        x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode(), torch.autocast("cpu", torch.bfloat16), Counted(w) as casts:
                torch.mm(torch.mm(x, w), w)
            print(mode.__name__, casts.count)
    """,
)
def autocast_cache(device: Hardware) -> Casts:
    """How often a weight is cast that two linear layers of one forward share.

    Of seven kinds of weights and modes; then whether a parameter that is set to zero between its
    uses counts as zero in the second.
    """
    return Casts({name: _casts(use) for name, use in USES.items()}, _stale())


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


def _casts(use: Use) -> int:
    weight, x = use.weight(), torch.ones(4, 4)
    autocast = torch.autocast("cpu", LOW, cache_enabled=use.cached)
    casts = Counted(weight)
    with use.context(), autocast, casts:
        linear(linear(x, use.each(weight)), use.each(weight))
    return casts.count


def _stale() -> bool:
    weight, x = Parameter(torch.ones(4, 4)), torch.ones(4, 4)
    with torch.autocast("cpu", LOW):
        linear(x, weight)
        with torch.no_grad():
            weight.zero_()
        return bool(linear(x, weight).any())
