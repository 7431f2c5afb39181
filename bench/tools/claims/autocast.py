"""Autocast's casts, and gradients scaled for float16."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.case.memory import CASTS
from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.claim import Answer, claim, holds, refuted, say, undecided


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


def _casts(weight: Tensor, mode: Callable[[], Any] = nullcontext, cached: bool = True) -> int:
    """How often two linear layers of one forward cast the weight that they share."""
    autocast, casts = torch.autocast("cpu", torch.bfloat16, cache_enabled=cached), Counted(weight)
    with mode(), autocast, casts:
        functional.linear(functional.linear(torch.ones(4, 4), weight), weight)
    return casts.count


@claim("a weight used twice in one autocast forward is cast once", "003 §8.2")
def autocast_cache(device: Hardware) -> Answer:
    """How often two linear layers of one forward cast the weight that they share, to bfloat16.

    Refuted if a parameter with gradients is cast more than once, undecided if never. Another weight
    or mode with more than one cast is a limit.

    import torch
    from modescope.bench.tools.claims.autocast import Counted
    x, w = torch.ones(4, 4), torch.nn.Parameter(torch.ones(4, 4))
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode(), torch.autocast("cpu", torch.bfloat16), Counted(w) as casts:
            torch.mm(torch.mm(x, w), w)
        print(mode.__name__, casts.count)
    """
    w = Parameter(torch.ones(4, 4))
    casts = _casts(w)
    others = {
        "casts of a parameter under no_grad": _casts(w, torch.no_grad),
        "casts of a parameter in inference_mode": _casts(w, torch.inference_mode),
        "casts of a frozen weight": _casts(torch.ones(4, 4)),
        "casts of a computed weight (no leaf)": _casts(w * 2),
        "casts of a parameter with cache_enabled=False": _casts(w, cached=False),
    }
    numbers = {"casts of a parameter with gradients": casts, **others}
    if casts == 0:
        return undecided("a parameter with gradients is not cast at all", numbers)
    if casts > 1:
        return refuted("a parameter with gradients is cast more than once", numbers, numbers)
    limits = [say({label: count}) for label, count in others.items() if count > 1]
    return holds("a parameter with gradients is cast once", numbers, limits)


@claim("GradScaler skips the step and shrinks the scale on inf/NaN", "003 §8.3")
def scaler_skips(device: Hardware) -> Answer:
    """A step of two optimizers with good gradients, and with inf, -inf or NaN among them.

    Refuted unless only good ones change the parameter and keep the scale. A limit if a good step is
    not made after so many bad ones that the scale does not shrink any more.

    import torch
    w = torch.nn.Parameter(torch.ones(2))
    optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("cpu")
    for factor in (1.0, float("inf"), float("nan"), 1.0):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        print(factor, w.tolist(), scaler.get_scale())
    """
    numbers: dict[str, object] = {}
    wrong: dict[str, object] = {}
    kinds: tuple[Any, ...] = (torch.optim.SGD, torch.optim.AdamW)
    for kind in kinds:
        for factor in (1.0, math.inf, -math.inf, math.nan):
            w = Parameter(torch.ones(2))
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            _step(scaler, kind([w], lr=0.1), factor)
            moved, shrunk = not torch.equal(w, torch.ones(2)), scaler.get_scale() < 1024
            label = f"{kind.__name__}, gradients of {factor}"
            numbers[label] = f"{'a' if moved else 'no'} step, scale {scaler.get_scale():g}"
            if (moved, shrunk) != (factor == 1, factor != 1):
                wrong[label] = numbers[label]
    w = Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(200):  # halve the scale to nothing
        _step(scaler, optimizer, math.nan)
    _step(scaler, optimizer, 1.0)
    label = "a parameter of 1 after 200 bad steps and a good one"
    numbers[label] = w.item()
    if wrong:
        return refuted("a bad step is made, or a good one is not", numbers, wrong)
    limits = [] if w.item() < 1 else [say({label: w.item()})]  # it may be NaN
    return holds("good steps are made, others skipped", numbers, limits)


def _step(scaler: torch.amp.GradScaler, optimizer: Any, factor: float) -> None:
    """A step whose gradients are 1, and in the last element `factor`."""
    (w,) = optimizer.param_groups[0]["params"]
    optimizer.zero_grad()
    scaler.scale(w.sum()).backward()
    w.grad[-1] *= factor
    scaler.step(optimizer)
    scaler.update()


@claim("fp16 gradients underflow to zero without loss scaling; bf16's do not", "003 §8.3")
def scaler_underflow(device: Hardware) -> Answer:
    """The least k for which a gradient of 2^k comes through a linear layer under autocast.

    Refuted unless float16 without scaling loses 2^-30, and bfloat16 not even 2^-126, the smallest
    normal number. A limit if float16 loses 2^-30 with scaling, too.

    import torch
    for dtype, scaled in ((torch.float16, 0), (torch.float16, 1), (torch.bfloat16, 0)):
        w = torch.nn.Parameter(torch.ones(1, 1))
        with torch.autocast("cpu", dtype):
            y = torch.mm(torch.ones(1, 1), w)
        scaler = torch.amp.GradScaler("cpu", enabled=bool(scaled))
        scaler.scale(y.float().sum() * 1e-9).backward()
        print(dtype, "scaled" if scaled else "", w.grad.item())
    """
    half = _least_exponent(torch.float16, scaled=False)
    scaled = _least_exponent(torch.float16, scaled=True)
    brain = _least_exponent(torch.bfloat16, scaled=False)
    numbers = {"float16": half, "float16 with scaling": scaled, "bfloat16": brain}
    if half <= -30 or brain > -126:
        return refuted("float16 keeps 2^-30, or bfloat16 loses 2^-126", numbers, numbers)
    limits = ["float16 loses 2^-30 with scaling, too"] if scaled > -30 else []
    return holds("float16 loses 2^-30, bfloat16 keeps 2^-126", numbers, limits)


def _least_exponent(dtype: torch.dtype, scaled: bool) -> int:
    for k in range(-150, 1):
        w = Parameter(torch.ones(1, 1))
        with torch.autocast("cpu", dtype):
            y = functional.linear(torch.ones(1, 1), w)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        scaler.scale((y.float() * 2.0**k).sum()).backward()
        if w.grad is not None and w.grad.item() != 0:
            return k
    return 1
