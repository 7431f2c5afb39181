"""The optimizers and losses that a training step can have. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim. Its state must begin as zeros: `Trainer.restore` writes zeros.

    `counts_steps`: whether its state contains a count of steps.
    """

    torch_name: str
    counts_steps: bool  # in its state, which is on the host unless it is capturable
    follows_size: bool
    """Whether an update is proportional to its gradient. AdamW's is not: even a gradient that is a
    rounding error makes a full update."""


OPTIMIZERS = {
    "sgd": Optimizer("SGD", counts_steps=False, follows_size=True),
    "adamw": Optimizer("AdamW", counts_steps=True, follows_size=False),
}

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "default": {},  # torch chooses: foreach on a GPU, a loop over parameters on a CPU
    "for_loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
"""The setting train.implementation -> arguments of the optimizer's constructor."""


@dataclass(frozen=True)
class Loss:
    """A loss that comes with modescope."""

    target: str  # importable "module:function"
    compares: bool  # whether it compares forward's outputs with random targets


LOSSES = {
    "mse": Loss("modescope.bench.modes.losses:mse", compares=True),
    "output": Loss("modescope.bench.modes.losses:returned_loss", compares=False),
}
