"""Custom operators with a registered backward, trained in eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.records.progress import one_line
from modescope.bench.tools.claims import lab

Operator = Callable[[Tensor], Tensor]

NAMESPACE = "modescope_trained"
MAX_NORM = 1.0
STEPS = 5
CLOSE = 1e-5  # fused code may round otherwise
FINE = "without an error"


def _add() -> Operator:
    """`mylib::myadd` of the document, which needs neither of its inputs for its backward."""

    @torch.library.custom_op(f"{NAMESPACE}::add", mutates_args=())
    def add(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    add.register_fake(lambda x, y: torch.empty_like(x))
    add.register_autograd(lambda ctx, grad: (grad, grad), setup_context=lambda *_, **__: None)
    return lambda x: add(x, x.tanh())


def _scale(x: Tensor, max_norm: float) -> Tensor:
    scale: Tensor = max_norm / (x.norm() + 1e-12)
    return scale.clamp(max=1.0)


def _clip_norm() -> Operator:
    """`mylib::clip_norm` of the document, whose backward takes the scale for a constant."""

    @torch.library.custom_op(f"{NAMESPACE}::clip_norm", mutates_args=())
    def clip_norm(x: Tensor, max_norm: float) -> Tensor:
        return x * _scale(x, max_norm)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.saved = (inputs[0], _scale(*inputs))

    clip_norm.register_fake(lambda x, max_norm: torch.empty_like(x))
    clip_norm.register_autograd(lambda ctx, g: (g * ctx.saved[1], None), setup_context=save)
    return lambda x: clip_norm(x, MAX_NORM)


# what the document writes -> what makes it, and the same in torch's own differentiable operators
OPS: dict[str, tuple[Callable[[], Operator], Operator]] = {
    "myadd": (_add, lambda x: x + x.tanh()),
    "clip_norm": (_clip_norm, lambda x: x * _scale(x, MAX_NORM).detach()),
}


def close(difference: float) -> bool:
    """Whether it may be rounding."""
    return difference <= CLOSE


@lab.claim(
    "a custom op with a registered backward trains, eager and compiled",
    "003 §10.1 Skeleton; 003 Exercise 4",
    compiles=True,
    limit_s=240,
    figures={
        "trained": lab.must("trained, eager and compiled,", FINE, "both train without an error"),
        "off_in_eager": lab.must(
            "largest difference from weights trained with torch's own operators, eager,",
            close,
            "in eager, weights become those with torch's own operators, to 1e-5",
        ),
        "off_compiled": lab.must(
            "largest difference from weights trained with torch's own operators, compiled,",
            close,
            "compiled, weights become those with torch's own operators, to 1e-5",
        ),
        "falls": lab.must("the loss falls, eager and compiled,", True),
        "exact": lab.should("the backward is the derivative, by gradcheck,", True),
    },
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
def custom_op_autograd(device: lab.Hardware) -> lab.Values:
    """A linear layer and the document's operators, trained for five steps of SGD.

    In eager and compiled by Inductor, against the same with torch's own operators; and what
    gradcheck says of the backward.
    """
    trained, off_in_eager, off_compiled, falls, exact = {}, {}, {}, {}, {}
    for name, (make, own) in OPS.items():
        op = make()
        try:
            eager, fused = _train(op), _train(op, torch.compile(fullgraph=True))
        except Exception as error:
            trained[name] = one_line(error)
            continue
        trained[name] = FINE
        expected, _ = _train(own)
        off_in_eager[name] = float((eager[0] - expected).abs().max())
        off_compiled[name] = float((fused[0] - expected).abs().max())
        falls[name] = all(losses[-1] < losses[0] for _, losses in (eager, fused))
        x = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
        exact[name] = bool(torch.autograd.gradcheck(op, x, raise_exception=False))
    return trained, off_in_eager, off_compiled, falls, exact


def _train(
    op: Operator, compiled: Callable[[Operator], Operator] = lambda step: step
) -> tuple[Tensor, list[float]]:
    """Weights after the steps, and the loss in each."""
    torch.compiler.reset()
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    forward = compiled(lambda x: op(layer(x)))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (forward(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return layer.weight.detach().clone(), losses
