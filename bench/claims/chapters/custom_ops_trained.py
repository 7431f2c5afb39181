"""Operators of one's own with a registered backward, trained in eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.devices import Hardware
from bench.isolation import one_line

Function = Callable[..., Any]

NAMESPACE = "modescope_trained"
MAX_NORM = 1.0
STEPS = 5
CLOSE = 1e-5  # fused code may round otherwise


def _add() -> Function:
    """`mylib::myadd` of the document."""

    @torch.library.custom_op(f"{NAMESPACE}::add", mutates_args=())
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    add.register_fake(lambda x, y: torch.empty_like(x))
    add.register_autograd(lambda ctx, grad: (grad, grad), setup_context=_save_nothing)
    return lambda x: add(x, x.tanh())


def _save_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """A sum needs neither of its inputs for its backward."""


def _scale(x: Tensor, max_norm: float) -> Tensor:
    scale: Tensor = max_norm / (x.norm() + 1e-12)
    return scale.clamp(max=1.0)


def _clip_norm() -> Function:
    """`mylib::clip_norm` of the document, whose backward takes the scale for a constant."""

    @torch.library.custom_op(f"{NAMESPACE}::clip_norm", mutates_args=())
    def clip_norm(x: Tensor, max_norm: float) -> Tensor:
        return x * _scale(x, max_norm)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        x, max_norm = inputs
        ctx.saved = (x, _scale(x, max_norm))

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        _, scale = ctx.saved
        return grad * scale, None

    clip_norm.register_fake(lambda x, max_norm: torch.empty_like(x))
    clip_norm.register_autograd(backward, setup_context=save)
    return lambda x: clip_norm(x, MAX_NORM)


def _without() -> Function:
    """An operator with no backward registered."""

    @torch.library.custom_op(f"{NAMESPACE}::without", mutates_args=())
    def without(x: Tensor) -> Tensor:
        return x * 2

    without.register_fake(torch.empty_like)
    return without


# what the document writes -> what makes it, and the same in torch's own differentiable operators
OPS: dict[str, tuple[Callable[[], Function], Function]] = {
    "myadd": (_add, lambda x: x + x.tanh()),
    "clip_norm": (_clip_norm, lambda x: x * _scale(x, MAX_NORM).detach()),
}


@dataclass(frozen=True)
class Trained:
    """A linear layer followed by the operator, trained for some steps, by operator."""

    errors: Annotated[Mapping[str, str], "error,"]  # in eager or compiled
    off_in_eager: Annotated[Mapping[str, float], "weights against torch's own operators, eager,"]
    off_compiled: Annotated[Mapping[str, float], "weights against torch's own, compiled,"]
    falls: Annotated[Mapping[str, bool], "the loss falls,"]
    exact: Annotated[Mapping[str, bool], "gradcheck: the backward is the derivative,"]
    without: Annotated[str | None, "error of one without a backward"]


def trains_both_ways(seen: Trained) -> Verdict:
    """Refuted if one raises an error, or its loss does not fall in eager and compiled.

    Refuted, too, if the weights after five steps differ by more than 1e-5 from those with torch's
    own operators of the same gradient. Within limits if a backward of the document is not the
    derivative of its operator; else holds.
    """
    for op, error in seen.errors.items():
        return refuted("it does not train", f"{op}: {error}")
    for op, falls in seen.falls.items():
        off = max(seen.off_in_eager[op], seen.off_compiled[op])
        if not falls:
            return refuted("it does not train", f"{op}: the loss does not fall")
        if off > CLOSE:
            return refuted("it trains to something else", f"{op}: weights differ by {off:.2g}")
    told = (
        f"{' and '.join(seen.falls)} trained alike in eager, compiled, and as torch's own operators"
    )
    if seen.without is not None:
        told += "; without a backward it is an error"
    limits = [
        f"the backward that the document gives for {op} is not its derivative: torch takes it"
        for op, exact in seen.exact.items()
        if not exact
    ]
    return within_limits(told, *limits) if limits else holds(told)


@claim(
    id="custom-op-autograd",
    statement="a custom op with a registered backward trains, eager and compiled",
    source=("003 §10.1 Skeleton", "003 Exercise 4"),
    needs=("cpu",),
    decide=trains_both_ways,
    compiles=True,
    limit_s=240,
    snippet="""
        import torch

        @torch.library.custom_op("modescope_snippet::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor: return x * 2
        twice.register_fake(torch.empty_like)
        twice.register_autograd(lambda ctx, grad: grad * 2)
        for f in (twice, torch.compile(lambda x: twice(x), backend="aot_eager", fullgraph=True)):
            f(x := torch.ones(3, requires_grad=True)).sum().backward()
            print(x.grad)
    """,
)
def custom_op_autograd(device: Hardware) -> Trained:
    """A linear layer and the document's operators, trained for five steps of SGD.

    In eager and compiled by Inductor, against the same with torch's own operators; and what
    gradcheck says of the backward.
    """
    errors: dict[str, str] = {}
    off: dict[str, dict[str, float]] = {"eager": {}, "compiled": {}}
    falls: dict[str, bool] = {}
    exact: dict[str, bool] = {}
    for name, (make, own) in OPS.items():
        op = make()
        try:
            seen = {"eager": _train(op), "compiled": _train(op, torch.compile(fullgraph=True))}
        except Exception as error:
            errors[name] = one_line(error)
            continue
        expected, _ = _train(own)
        for how, (weights, losses) in seen.items():
            off[how][name] = float((weights - expected).abs().max())
            falls[name] = falls.get(name, True) and losses[-1] < losses[0]
        exact[name] = _is_derivative(op)
    return Trained(errors, off["eager"], off["compiled"], falls, exact, _error_of(_without()))


def _train(
    op: Function, compiled: Callable[[Function], Function] = lambda step: step
) -> tuple[Tensor, list[float]]:
    """Weights after the steps, and the loss in each."""
    torch.compiler.reset()
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    forward = compiled(partial(_forward, layer, op))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (forward(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return layer.weight.detach().clone(), losses


def _forward(layer: nn.Module, op: Function, x: Tensor) -> Tensor:
    result: Tensor = op(layer(x))
    return result


def _is_derivative(op: Function) -> bool:
    x = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
    return bool(torch.autograd.gradcheck(op, x, raise_exception=False))


def _error_of(op: Function) -> str | None:
    try:
        _train(op)
    except RuntimeError as error:
        return one_line(error)
    return None
