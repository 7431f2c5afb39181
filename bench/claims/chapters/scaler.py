"""Steps that GradScaler skips."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch.optim import Optimizer

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware

GOOD = "good gradients"
BAD = {"inf": float("inf"), "-inf": -float("inf"), "NaN": float("nan")}
FIRST_SCALE = 1024.0
HOPELESS = 2000  # steps in a row: enough to halve any scale to nothing

OPTIMIZERS: dict[str, Callable[[list[Any]], Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
    "AdamW(fused)": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
}


@dataclass(frozen=True)
class Skipped:
    """Steps with one bad entry among the gradients of two parameters."""

    moved: Annotated[Mapping[str, bool], "parameters changed, of"]
    state_changed: Annotated[Mapping[str, bool], "the optimizer's state changed, of"]
    scales: Annotated[Mapping[str, float], "scale afterwards, before it is 1,024, of"]
    other: Annotated[bool, "another optimizer under the same scaler steps"]
    to_nothing: Annotated[int, "bad steps in a row until the scale is 0"]
    then: Annotated[float, "a parameter of 1 after a good step from there"]


def bad_steps_skipped(seen: Skipped) -> Verdict:
    """Refuted if a step with inf or NaN changes a parameter or does not shrink the scale.

    Refuted, too, if one without does not change the parameters or shrinks it. Within limits if the
    scale can shrink to nothing, from where a good step is not skipped but spoils the parameters, or
    if the optimizer's state changes; else holds.
    """
    for name, moved in seen.moved.items():
        scale = seen.scales[name]
        if name.endswith(GOOD):
            if not moved or scale < FIRST_SCALE:
                return refuted("good steps are not made", f"{name}: scale {scale:g}")
        elif moved:
            return refuted("the step is made", f"{name} changed the parameters")
        elif scale >= FIRST_SCALE:
            return refuted(
                "the scale does not shrink", f"{name}: from {FIRST_SCALE:g} to {scale:g}"
            )
    bad = [name for name in seen.moved if not name.endswith(GOOD)]
    told = (
        f"{len(bad)} steps with inf or NaN were skipped, the scale went from {FIRST_SCALE:g} to "
        f"{max(seen.scales[name] for name in bad):g}"
        + ("; another optimizer under the same scaler still steps" if seen.other else "")
    )
    changed = [name for name in bad if seen.state_changed[name]]
    limits = [f"the optimizer's state changed: {', '.join(changed)}"] if changed else []
    if math.isnan(seen.then):
        limits.append(
            f"after {seen.to_nothing} bad steps in a row the scale is 0: the next good step is not "
            "skipped and makes the parameters NaN"
        )
    return within_limits(told, *limits) if limits else holds(told)


@claim(
    id="scaler-skips",
    statement="GradScaler skips the step and shrinks the scale on inf/NaN",
    source=("003 §8.3",),
    needs=("cpu",),
    decide=bad_steps_skipped,
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
def scaler_skips(device: Hardware) -> Skipped:
    """A step of three optimizers with good gradients, and with inf, -inf and NaN among them.

    Each follows a good one. Then two optimizers under one scaler, of which one gets inf; and steps
    with NaN until the scale does not shrink any more, and a good one.
    """
    moved, changed, scales = {}, {}, {}
    for optimizer, make in OPTIMIZERS.items():
        for what, value in {GOOD: None, **BAD}.items():
            name = f"{optimizer}, {what}"
            moved[name], changed[name], scales[name] = _step(make, value)
    to_nothing, then = _to_nothing()
    return Skipped(moved, changed, scales, _other_steps(), to_nothing, then)


def _step(make: Callable[[list[Any]], Optimizer], value: float | None) -> tuple[bool, bool, float]:
    """Whether parameters and state changed, and the scale afterwards."""
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = make(parameters)
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST_SCALE)
    _scaled_backward(scaler, parameters)
    scaler.step(optimizer)
    scaler.update()
    before = [each.detach().clone() for each in parameters]
    state = copy.deepcopy(optimizer.state_dict()["state"])
    _scaled_backward(scaler, parameters)
    if value is not None:
        _spoilt(parameters[1], value)
    scaler.step(optimizer)
    scaler.update()
    same = all(torch.equal(a, b) for a, b in zip(parameters, before, strict=True))
    return not same, not _equal(state, optimizer.state_dict()["state"]), scaler.get_scale()


def _scaled_backward(scaler: Any, parameters: list[Any]) -> None:
    for each in parameters:
        each.grad = None
    scaler.scale(torch.stack([each.sum() for each in parameters]).sum()).backward()


def _spoilt(parameter: Any, value: float) -> None:
    parameter.grad[-1] = value


def _equal(state: Any, other: Any) -> bool:
    return all(
        torch.equal(torch.as_tensor(value), torch.as_tensor(other[key][name]))
        for key, values in state.items()
        for name, value in values.items()
        if value is not None
    )


def _other_steps() -> bool:
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizers = [torch.optim.SGD([each], lr=0.1) for each in parameters]
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST_SCALE)
    _scaled_backward(scaler, parameters)
    _spoilt(parameters[0], BAD["inf"])
    for each in optimizers:
        scaler.step(each)
    return not torch.equal(parameters[1], torch.ones(3))


def _to_nothing() -> tuple[int, float]:
    """Bad steps until the scale shrinks no more, and what a good step then makes of 1."""
    w = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST_SCALE)
    scale, steps = math.inf, 0
    while 0 < scaler.get_scale() < scale and steps < HOPELESS:
        scale, steps = scaler.get_scale(), steps + 1
        _scaled_backward(scaler, [w])
        _spoilt(w, BAD["NaN"])
        scaler.step(optimizer)
        scaler.update()
    _scaled_backward(scaler, [w])
    scaler.step(optimizer)
    scaler.update()
    return steps, w.item()
