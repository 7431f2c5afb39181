"""Gradients that are too small for their type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware

SCALED = {"without scaling": False, "with scaling": True}
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
EXPONENTS = range(-150, 1)
NORMAL_MIN = -126  # exponent of the smallest normal number of float32, and of bfloat16

SAMPLES, WIDTH, LAYERS = 256, 32, 3
NEAR = 1e-4  # how far the network's outputs are from their targets


@dataclass(frozen=True)
class Underflow:
    """Gradients that are not zero in float64, by type and scaling."""

    least: Annotated[Mapping[str, int], "least k for which a gradient of 2^k arrives,"]
    vanished: Annotated[
        Mapping[str, float], "gradients of a network near its optimum that are zero,", "share"
    ]


def half_underflows(seen: Underflow) -> Verdict:
    """Holds if float16 loses gradients of the network without scaling, and none with it.

    And if bfloat16, without scaling, loses none there, nor any magnitude down to 2^-126, where
    float32 ceases to be normal. Within limits if float16 with scaling loses some, too; else
    refuted.
    """
    half, scaled = (f"float16 {how}" for how in SCALED)
    brain = "bfloat16 without scaling"
    if seen.vanished[half] == 0:
        return refuted(
            "float16 lost no gradient", f"{half}, 2^{seen.least[half]} arrived, and no zero came"
        )
    if seen.vanished[brain] > 0 or seen.least[brain] > NORMAL_MIN:
        return refuted(
            "bfloat16 lost gradients",
            f"{seen.vanished[brain]:.1%} of the network's, and all below 2^{seen.least[brain]}",
        )
    told = (
        f"of a network near its optimum float16 lost {seen.vanished[half]:.1%} of the gradients, "
        f"with scaling {seen.vanished[scaled]:.1%}, bfloat16 none; single gradients arrive from "
        f"2^{seen.least[half]} on, with scaling from 2^{seen.least[scaled]}, in bfloat16 from "
        f"2^{seen.least[brain]}"
    )
    if seen.vanished[scaled] > 0:
        return within_limits(told, f"with scaling float16 loses {seen.vanished[scaled]:.1%}")
    return holds(told)


@claim(
    id="scaler-underflow",
    statement="fp16 gradients underflow to zero without loss scaling; bf16's do not",
    source=("003 §8.3",),
    needs=("cpu",),
    decide=half_underflows,
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
def scaler_underflow(device: Hardware) -> Underflow:
    """Gradients of 2^k that come through a linear layer under autocast, for k of -150 to 0.

    And those of a small network (tanh, mean squared error) whose outputs are 1e-4 from their
    targets. With scaling: by GradScaler's first scale, 65536.
    """
    least, vanished = {}, {}
    for name, dtype in TYPES.items():
        for how, scaled in SCALED.items():
            arrived = [k for k in EXPONENTS if _single(k, dtype, scaled) != 0]
            least[f"{name} {how}"] = min(arrived)
            vanished[f"{name} {how}"] = _vanished(dtype, scaled)
    return Underflow(least, vanished)


def _single(exponent: int, dtype: torch.dtype, scaled: bool) -> float:
    w = torch.nn.Parameter(torch.ones(1, 1))
    with torch.autocast("cpu", dtype):
        y = functional.linear(torch.ones(1, 1), w)
    return _gradients(y.float().sum() * 2.0**exponent, [w], scaled)[0].item()


def _gradients(loss: Tensor, parameters: list[Any], scaled: bool) -> list[Tensor]:
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    scaler.scale(loss).backward()
    scaler.unscale_(torch.optim.SGD(parameters))
    return [each.grad for each in parameters]


def _vanished(dtype: torch.dtype, scaled: bool) -> float:
    """Share of gradients that are zero, among those that are not in float64."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5 for _ in range(LAYERS)]
    x, off = (torch.randn(SAMPLES, WIDTH, generator=generator) for _ in range(2))
    exact = [each.double().requires_grad_() for each in weights]
    target = (_network(x.double(), exact) + NEAR * off).detach()
    functional.mse_loss(_network(x.double(), exact), target).backward()
    parameters = [torch.nn.Parameter(each) for each in weights]
    with torch.autocast("cpu", dtype):
        y = _network(x, parameters)
    # What comes to y is the exact gradient: else the forward's rounding would be measured.
    given = (2 * NEAR / off.numel() * -off).detach()
    found = _gradients((y.float() * given).sum(), parameters, scaled)
    return _zeros(found, [each.grad for each in exact])


def _network(x: Tensor, weights: list[Any]) -> Tensor:
    for weight in weights[:-1]:
        x = torch.tanh(functional.linear(x, weight))
    return functional.linear(x, weights[-1])


def _zeros(found: list[Tensor], exact: list[Any]) -> float:
    there = torch.cat([each.flatten() != 0 for each in exact])
    zero = torch.cat([each.flatten() == 0 for each in found])
    return float((there & zero).sum() / there.sum())
