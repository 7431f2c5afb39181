"""The optimizers and losses that a user may name in training. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim whose state is made of zeros, which `Trainer.restore` writes."""

    torch_name: str
    counts_steps: bool  # on the host, unless capturable
    follows_size: bool
    """Whether small gradients make small updates; if not, a rounding error makes a full update."""


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
"""Arguments of the optimizer."""


@dataclass(frozen=True)
class Loss:
    """A built-in loss."""

    target: str  # importable "module:function"
    compares: bool  # forward's outputs with random targets


LOSSES = {
    "mse": Loss("modescope.bench.steps.training.losses:mse", compares=True),
    "output": Loss("modescope.bench.steps.training.losses:returned_loss", compares=False),
}
