"""Options of training -> an optimizer of torch's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from bench.records import Mode, Training
from bench.training.choices import IMPLEMENTATIONS, OPTIMIZERS


def optimizer(
    parameters: Iterable[torch.nn.Parameter], training: Training, mode: Mode
) -> Optimizer:
    """The optimizer that `training` asks for; capturable where `mode` captures its step."""
    named = OPTIMIZERS[training.optimizer]
    options: dict[str, Any] = dict(IMPLEMENTATIONS[training.implementation])
    if named.counts_steps:
        asked = training.capturable
        options["capturable"] = training.captures_step(mode) if asked is None else asked
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    made: Optimizer = getattr(torch.optim, named.torch_name)(trained, lr=training.lr, **options)
    return made


def unscales(made: Optimizer) -> bool:
    """Whether it unscales gradients itself, so that GradScaler leaves that and the skip to it."""
    return bool(getattr(made, "_step_supports_amp_scaling", False))
