"""What a user may name in training, and what follows from each name. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim whose state is made of zeros, which `Trainer.restore` writes."""

    torch_name: str
    counts_steps: bool  # on the host, unless it is told to be capturable
    follows_size: bool
    """Whether small gradients make small updates; where not, even a rounding error makes a step."""


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
    """A loss that needs no function of the user's."""

    target: str  # importable "module:function"
    compares: bool  # what forward returns with targets, which are drawn


LOSSES = {
    "mse": Loss("bench.training.losses:mse", compares=True),
    "output": Loss("bench.training.losses:given", compares=False),
}
