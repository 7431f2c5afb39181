"""Switches off the random numbers of a model, by the model's own switches."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.modules.batchnorm import _NormBase


def _never_drop(module: nn.Module) -> None:
    """Sets every probability to drop something to 0, wherever modules keep it."""
    for part in module.modules():
        drops = any(word in type(part).__name__.lower() for word in ("drop", "stochasticdepth"))
        for name, value in vars(part).items():
            is_probability = "drop" in name.lower() or (drops and name in ("p", "prob", "rate"))
            if is_probability and isinstance(value, float) and 0 < value <= 1:
                setattr(part, name, 0.0)


def _evaluate(module: nn.Module) -> None:
    """Switches all parts but norms and recurrent networks to `eval()`.

    In `eval()` a norm computes something else, and cuDNN's recurrent networks have no backward.
    """
    for part in module.modules():
        if not isinstance(part, (_NormBase, nn.RNNBase)):
            part.training = False


SWITCHES: dict[str, Callable[[nn.Module], None]] = {
    "all probabilities of dropout are 0": _never_drop,
    "all modules but norms and recurrent networks are in eval()": _evaluate,
}
"""Ways to switch random numbers off, which change the module; each beside those before it."""
