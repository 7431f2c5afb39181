"""Checks of training steps in CUDA graphs, for tests on a GPU and with emulated graphs on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from modescope.bench.devices.devices import Hardware
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.losses import trainable
from modescope.bench.modes.phases import TrainingPhase
from modescope.bench.modes.trainer import trainer_of
from modescope.bench.records.cases import Training, Variant
from tests.helpers.probe_models import variant

BATCH, WIDTH, HIDDEN, OUT = 8, 16, 64, 4
WEIGHTS_BYTES = 4 * (WIDTH * HIDDEN + HIDDEN + HIDDEN * OUT + OUT)
SAVED_BYTES = 4 * BATCH * (2 * HIDDEN + OUT)
"""Bytes saved for backward: GELU's input and output, and the output that the loss reads."""

STEPS = 10
LR = {"sgd": 0.1, "adamw": 0.01}
"""Learning rates. They are large, so that a step on an old batch or old weights is clearly wrong.
"""

ASKED = [
    pytest.param(variant("fp32"), {}, id="fp32"),
    pytest.param(variant("bf16"), {}, id="bf16"),
    pytest.param(variant("bf16", autocast=True), {}, id="amp bf16"),
    pytest.param(
        variant("fp16", autocast=True), {"implementation": "fused"}, id="amp fp16 with scaler"
    ),
]
"""Variants of a step that is captured as a whole."""


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, OUT))


class Unused(nn.Module):
    """A model with a parameter that forward does not use, so it never gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = two_layers()
        self.idle = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output


def subject_of(module: nn.Module, device: Hardware) -> Subject:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    plain = Subject(module, Inputs((torch.randn(BATCH, WIDTH),), {})).to(device.torch_device)
    return trainable(plain, "mse", seed=0)


def training(optimizer: str, **options: Any) -> Training:
    """Options of training with `optimizer` and its learning rate of LR.

    AdamW is capturable in eager, too, because a capturable one computes in another order.
    """
    capturable = True if optimizer == "adamw" else None
    return Training(optimizer, lr=LR[optimizer], **{"capturable": capturable, **options})


def built(
    asked: Variant, how: Training, device: Hardware, of: Callable[[], nn.Module] = two_layers
) -> Built:
    """Builds a step of `asked` and resets it to the start of training, as capturing takes steps."""
    own = subject_of(of(), device).cast(modes.weight_dtype(asked))
    made = modes.build(own, asked, True, device, TrainingPhase(how))
    trainer_of(made).adjust_start(made.step)
    trainer_of(made).restore()
    return made


def in_graphs(asked: Variant, **axes: Any) -> Variant:
    return replace(asked, mode=replace(asked.mode, graph=True, **axes))


def step(made: Built, seed: int) -> Tensor:
    """Trains one step on a batch drawn with `seed`; returns its loss."""
    generator = torch.Generator().manual_seed(seed)
    inputs = made.subject.inputs
    with torch.no_grad():
        inputs.assign(inputs.map(lambda t: torch.randn(t.shape, generator=generator).to(t)))
    loss = made.step()
    assert isinstance(loss, Tensor)
    return loss.detach().clone()


def addresses(made: Built) -> list[int]:
    state = (*trainer_of(made).trained, *trainer_of(made).gradients(), *trainer_of(made).tensors())
    return [tensor.data_ptr() for tensor in state]


def values(made: Built) -> list[Tensor]:
    """Copies of all tensors that a step changes, and GradScaler's scale."""
    scaler = trainer_of(made).scaler
    scale = [torch.tensor(scaler.get_scale())] if scaler else []
    return [
        t.detach().cpu().clone() for t in (*trainer_of(made).trained, *trainer_of(made).tensors())
    ] + scale


def trains_alike(one: Built, other: Built, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Asserts equal losses, gradients and weights over STEPS steps, each with a new batch."""
    losses = []
    for seed in range(1, STEPS + 1):
        losses.append(step(one, seed))
        assert_close(losses[-1], step(other, seed), rtol=rtol, atol=atol)
        gradients = (trainer_of(each).gradients() for each in (one, other))
        assert_close(*gradients, rtol=rtol, atol=atol)
    assert_close(values(one), values(other), rtol=rtol, atol=atol)
    assert len({float(loss) for loss in losses}) == STEPS
    for made in (one, other):
        for parameter, gradient in zip(
            trainer_of(made).trained, trainer_of(made).gradients(), strict=True
        ):
            assert gradient is parameter.grad


def restores_its_start(made: Built) -> None:
    """Asserts that after `restore` it trains as before, and that no tensor has moved."""
    first, where = values(made), addresses(made)
    losses = [step(made, seed) for seed in range(1, 4)]
    after = values(made)
    assert not torch.equal(after[0], first[0])
    trainer_of(made).restore()
    assert all(map(torch.equal, values(made), first))
    if made.step != made.live:
        assert addresses(made) == where
    assert [float(step(made, seed)) for seed in range(1, 4)] == list(map(float, losses))
    assert all(map(torch.equal, values(made), after))
