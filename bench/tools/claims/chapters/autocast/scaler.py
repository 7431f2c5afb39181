"""Gradients that are too small for their type, and steps that GradScaler skips."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional

from modescope.bench.tools.claims import lab

FIRST_SCALE = 1024.0
SCALE = "scale afterwards, before it is 1,024, of"
HOPELESS = 2000  # steps in a row: enough to halve any scale to nothing
GOOD = {"good gradients": None}
BAD = {"inf": math.inf, "-inf": -math.inf, "NaN": math.nan}

OPTIMIZERS: dict[str, Callable[[list[Tensor]], Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
    "AdamW(fused)": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
}


@lab.claim(
    "GradScaler skips the step and shrinks the scale on inf/NaN",
    "003 §8.3",
    figures={
        "good_moved": lab.must("parameters changed, of", True, "good steps are made"),
        "good_scales": lab.must(
            SCALE, lambda scale: scale >= FIRST_SCALE, "good steps keep the scale"
        ),
        "good_state": "the optimizer's state changed, of",
        "moved": lab.must("parameters changed, of", False, "steps with inf or NaN are skipped"),
        "scales": lab.must(
            SCALE, lambda scale: scale < FIRST_SCALE, "skipped steps shrink the scale"
        ),
        "state": lab.should(
            "the optimizer's state changed, of", False, "skipped steps keep the optimizer's state"
        ),
        "to_nothing": "bad steps in a row until the scale does not shrink any more",
        "then": lab.should(
            "a parameter of 1 after a good step that follows so many bad ones",
            lambda parameter: parameter < 1,  # neither where it is NaN
            "a good step that follows any number of bad ones is made",
        ),
    },
    snippet="""
        import torch

        w = torch.nn.Parameter(torch.ones(2))
        optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("cpu")
        for factor in (1.0, float("inf"), float("nan"), 1.0):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            print(factor, w.tolist(), scaler.get_scale())
    """,
)
def scaler_skips(device: lab.Hardware) -> lab.Values:
    """A step of three optimizers with good gradients, and with inf, -inf and NaN among them.

    Each follows a good one. Then steps with NaN until the scale does not shrink any more, and a
    good one.
    """
    for kind in (GOOD, BAD):
        yield from lab.columns(
            {
                f"{optimizer}, {what}": _step(make, value)
                for optimizer, make in OPTIMIZERS.items()
                for what, value in kind.items()
            }
        )
    w = Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST_SCALE)
    scale, count = math.inf, 0
    while 0 < scaler.get_scale() < scale and count < HOPELESS:
        scale, count = scaler.get_scale(), count + 1
        _update(scaler, optimizer, math.nan)
    _update(scaler, optimizer)
    yield from (count, w.item())


def _step(make: Callable[[list[Tensor]], Any], value: float | None) -> tuple[bool, float, bool]:
    """Whether parameters changed, the scale afterwards, and whether the state changed."""
    parameters: list[Tensor] = [Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = make(parameters)
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST_SCALE)
    _update(scaler, optimizer)
    before, state = copy.deepcopy((parameters, _state(optimizer)))
    _update(scaler, optimizer, value)
    moved = not all(map(torch.equal, before, parameters))
    return moved, scaler.get_scale(), not all(map(torch.equal, state, _state(optimizer)))


def _update(scaler: torch.amp.GradScaler, optimizer: Any, bad: float | None = None) -> None:
    """A step with gradients of 1; `bad` replaces one of the last parameter's."""
    parameters = optimizer.param_groups[0]["params"]
    optimizer.zero_grad()
    scaler.scale(torch.stack([each.sum() for each in parameters]).sum()).backward()
    if bad is not None:
        parameters[-1].grad[-1] = bad
    scaler.step(optimizer)
    scaler.update()


def _state(optimizer: Any) -> list[Tensor]:
    return [value for values in optimizer.state.values() for value in values.values()]


HALF, SCALED, BRAIN = "float16 without scaling", "float16 with scaling", "bfloat16 without scaling"
HOW = {HALF: (torch.float16, False), SCALED: (torch.float16, True), BRAIN: (torch.bfloat16, False)}
EXPONENTS = range(-150, 1)
NORMAL_MIN = -126  # exponent of the smallest normal number of float32, and of bfloat16
SAMPLES, WIDTH, LAYERS = 256, 32, 3
NEAR = 1e-4  # how far the network's outputs are from their targets


def half_underflows(o: lab.Observed) -> lab.Rule:
    """Refuted unless float16 without scaling loses gradients of the network, and bfloat16 none.

    Refuted, too, if bfloat16 loses 2^-126, the least normal number of float32. A limit if float16
    with scaling loses some.
    """
    zero, least = o.zero, o.least
    yield lab.require("float16 loses gradients", zero[HALF] > 0, zero.say(HALF))
    yield lab.require("bfloat16 loses none", zero[BRAIN] <= 0, zero.say(BRAIN))
    smallest = f"a gradient of 2^{NORMAL_MIN} arrives in bfloat16"
    yield lab.require(smallest, least[BRAIN] <= NORMAL_MIN, least.say(BRAIN))
    yield lab.holds(zero.say(HALF))
    yield lab.limit_if(zero[SCALED] > 0, zero.say(SCALED))


@lab.claim(
    "fp16 gradients underflow to zero without loss scaling; bf16's do not",
    "003 §8.3",
    rule=half_underflows,
    figures={
        "least": "least k for which a gradient of 2^k arrives,",
        "zero": "gradients of a network near its optimum that are zero, [share]",
    },
    snippet="""
        import torch

        for dtype, scaled in ((torch.float16, 0), (torch.float16, 1), (torch.bfloat16, 0)):
            w = torch.nn.Parameter(torch.ones(1, 1))
            with torch.autocast("cpu", dtype):
                y = torch.mm(torch.ones(1, 1), w)
            scaler = torch.amp.GradScaler("cpu", enabled=bool(scaled))
            scaler.scale(y.float().sum() * 1e-9).backward()
            print(dtype, "scaled" if scaled else "", w.grad.item())
    """,
)
def scaler_underflow(device: lab.Hardware) -> lab.Values:
    """Gradients of 2^k that come through a linear layer under autocast, for k of -150 to 0.

    And those of a small network (tanh, mean squared error) whose outputs are 1e-4 from their
    targets. With scaling: by GradScaler's first scale, 65536.
    """
    one = torch.ones(1, 1)
    yield {
        how: min(k for k in EXPONENTS if _gradients([one], one, one * 2.0**k, *case)[0] != 0)
        for how, case in HOW.items()
    }
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5 for _ in range(LAYERS)]
    x, off = (torch.randn(SAMPLES, WIDTH, generator=generator) for _ in range(2))
    exact: list[Any] = [each.double().requires_grad_() for each in weights]
    target = (_network(x.double(), exact) + NEAR * off).detach()
    functional.mse_loss(_network(x.double(), exact), target).backward()
    there = torch.cat([each.grad.flatten() != 0 for each in exact])
    # What comes to the output is the exact gradient: else the forward's rounding would be measured.
    given = 2 * NEAR / off.numel() * -off
    zero = {how: _gradients(weights, x, given, *case) == 0 for how, case in HOW.items()}
    yield {how: float((there & each).sum() / there.sum()) for how, each in zero.items()}


def _gradients(
    weights: list[Tensor], x: Tensor, given: Tensor, dtype: torch.dtype, scaled: bool
) -> Tensor:
    """Those of the weights, in one row, of the outputs' gradients `given`."""
    parameters = [Parameter(each) for each in weights]
    with torch.autocast("cpu", dtype):
        y = _network(x, parameters)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    scaler.scale((y.float() * given).sum()).backward()
    scaler.unscale_(torch.optim.SGD(parameters))
    return torch.cat([each.grad.flatten() for each in parameters if each.grad is not None])


def _network(x: Tensor, weights: list[Any]) -> Tensor:
    for weight in weights[:-1]:
        x = torch.tanh(functional.linear(x, weight))
    return functional.linear(x, weights[-1])
