"""What must hold of steps that train in CUDA graphs: on a GPU, and on a CPU that emulates them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench import modes
from bench.devices import Hardware
from bench.modes import Built
from bench.records import Training, Variant
from bench.subject import Inputs, Subject
from bench.training.losses import trainable
from tests.probes import variant

BATCH, WIDTH, HIDDEN, OUT = 8, 16, 64, 4
WEIGHTS_BYTES = 4 * (WIDTH * HIDDEN + HIDDEN + HIDDEN * OUT + OUT)
SAVED_BYTES = 4 * BATCH * (2 * HIDDEN + OUT)
"""What goes into GELU, what comes out of it, and the output that the loss compares with targets."""

STEPS = 10
LR = {"sgd": 0.1, "adamw": 0.01}
"""Large, so that a step on an old batch or old weights is far from what it should be."""

ASKED = [
    pytest.param(variant("fp32"), {}, id="fp32"),
    pytest.param(variant("bf16"), {}, id="bf16"),
    pytest.param(variant("bf16", autocast=True), {}, id="amp bf16"),
    pytest.param(
        variant("fp16", autocast=True), {"implementation": "fused"}, id="amp fp16 with scaler"
    ),
]
"""What a step that is captured as a whole can be."""

IMPLEMENTATIONS = ("for_loop", "foreach", "fused")


@dataclass(frozen=True)
class Tolerance:
    """How far two ways to the same step may be apart."""

    relative: float
    absolute: float

    def check(self, one: Any, other: Any) -> None:
        torch.testing.assert_close(one, other, rtol=self.relative, atol=self.absolute)


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, OUT))


class Unused(nn.Module):
    """One of its parameters takes no part in forward, so it never gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = two_layers()
        self.idle = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output


class Named(nn.Module):
    """Takes its input by name alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = two_layers()

    def forward(self, *, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output


def subject_of(module: nn.Module, device: Hardware) -> Subject:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    plain = Subject(module, Inputs((torch.randn(BATCH, WIDTH),), {})).to(device.torch_device)
    return trainable(plain, "mse", seed=0)


def training(optimizer: str, **options: Any) -> Training:
    """Adamw computes in another order where it can be captured, so eager does likewise."""
    capturable = True if optimizer == "adamw" else None
    return Training(optimizer, lr=LR[optimizer], **{"capturable": capturable, **options})


def built(
    asked: Variant, how: Training, device: Hardware, of: Callable[[], nn.Module] = two_layers
) -> Built:
    """At the start of its training, however many steps a capture took."""
    own = subject_of(of(), device).cast(modes.weight_dtype(asked))
    made = modes.build(own, asked, True, device, how)
    made.trainer.settle_scale(made.step)
    made.trainer.restore()
    return made


def in_graphs(asked: Variant, **axes: Any) -> Variant:
    return replace(asked, mode=replace(asked.mode, graph=True, **axes))


def step(made: Built, seed: int) -> Tensor:
    """The loss of a step on the batch with this number."""
    generator = torch.Generator().manual_seed(seed)
    inputs = made.subject.inputs
    with torch.no_grad():
        inputs.assign(inputs.map(lambda t: torch.randn(t.shape, generator=generator).to(t)))
    loss = made.step()
    assert isinstance(loss, Tensor)
    return loss.detach().clone()


def addresses(made: Built) -> list[int]:
    state = (*made.trainer.trained, *made.trainer.gradients(), *made.trainer.state())
    return [tensor.data_ptr() for tensor in state]


def values(made: Built) -> list[Tensor]:
    """All that a step changes."""
    scaler = made.trainer.scaler
    scale = [torch.tensor(scaler.get_scale())] if scaler else []
    return [
        t.detach().cpu().clone() for t in (*made.trainer.trained, *made.trainer.state())
    ] + scale


def goes_the_same_way(one: Built, other: Built, tolerance: Tolerance) -> None:
    """The same losses, gradients and weights over steps that each have a batch of their own."""
    losses = []
    for seed in range(1, STEPS + 1):
        losses.append(step(one, seed))
        tolerance.check(losses[-1], step(other, seed))
        tolerance.check(one.trainer.gradients(), other.trainer.gradients())
    tolerance.check(values(one), values(other))
    assert len({float(loss) for loss in losses}) == STEPS
    for made in (one, other):
        for parameter, gradient in zip(made.trainer.trained, made.trainer.gradients(), strict=True):
            assert gradient is parameter.grad


def comes_back(made: Built) -> None:
    """Restored, it trains again as at first, and everything is where it was."""
    first, where = values(made), addresses(made)
    losses = [step(made, seed) for seed in range(1, 4)]
    after = values(made)
    assert not torch.equal(after[0], first[0])
    made.trainer.restore()
    assert all(map(torch.equal, values(made), first))
    if made.step != made.live:
        assert addresses(made) == where
    assert [float(step(made, seed)) for seed in range(1, 4)] == list(map(float, losses))
    assert all(map(torch.equal, values(made), after))
