"""Options of training -> an optimizer of torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from bench.records import COUNTING, Mode, Training

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adamw": torch.optim.AdamW,
}

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "default": {},  # torch chooses: foreach on a GPU, a loop over parameters on a CPU
    "for_loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def optimizer(
    parameters: Iterable[torch.nn.Parameter], training: Training, mode: Mode
) -> Optimizer:
    """The optimizer that `training` asks for; capturable where `mode` captures its step."""
    options: dict[str, Any] = dict(IMPLEMENTATIONS[training.implementation])
    if training.optimizer in COUNTING:
        asked = training.capturable
        options["capturable"] = training.captures_step(mode) if asked is None else asked
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return OPTIMIZERS[training.optimizer](trained, lr=training.lr, **options)


def unscales(made: Optimizer) -> bool:
    """Whether it unscales gradients itself, so that GradScaler leaves that and the skip to it."""
    return bool(getattr(made, "_step_supports_amp_scaling", False))
