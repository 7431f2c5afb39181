"""Compares losses, gradients and updates of training steps with those of steps in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import torch

from modescope.bench.checking.checks import Deviation, worst
from modescope.bench.model.outputs import Outputs, difference, zero_nonfinite
from modescope.bench.modes import modes
from modescope.bench.modes.trainer import trained_parameters
from modescope.bench.records.cases import Variant
from modescope.bench.records.tolerances import EPS, TOLERANCE

T = TypeVar("T")

CPU = torch.device("cpu")

LEAST_SHARE = 1e-2
"""The error of a gradient is divided by at least this share of the root mean square of all
gradients' norms, because some gradients are zero except for rounding: those of a key's bias in
attention, or of a bias before a batch norm (1 to 2 EPS of that mean in fp32, a tenth of an EPS in
bf16 and fp16)."""

LEAST_CLEAR, CLEAR_EPS = 1e-3, 10
"""Gradients of at least this size relative to typical ones, and of at least so many EPS, keep their
sign under rounding."""


@dataclass(frozen=True)
class ErrorScale:
    """Lower limits of what errors are divided by, so that one rounding stays within tolerance.

    An error is divided by the norm of the reference, but at least by `share` times the norm of a
    typical gradient (of an update: of a typical update), and for an update also at least by
    `of_weight` times the norm of its weight. `clear` is relative to a typical gradient's element.
    """

    share: float  # of a typical gradient, or of a typical update
    of_weight: float  # of the weight that was updated
    clear: float  # elements with smaller gradients may have updates of any size


EXACT = ErrorScale(LEAST_SHARE, 0.0, LEAST_CLEAR)


def error_scale(variant: Variant) -> ErrorScale:
    """Returns the scale for the precisions in which `variant` has gradients and weights."""
    tolerance, eps = TOLERANCE[variant.dtype], EPS[variant.dtype]
    weight_eps = torch.finfo(modes.weight_dtype(variant)).eps
    share, clear = max(LEAST_SHARE, eps / tolerance), max(LEAST_CLEAR, CLEAR_EPS * eps)
    return ErrorScale(share, weight_eps / tolerance, clear)


@dataclass(frozen=True)
class Reference:
    """The reference of a loss, gradient or update, and what errors against it are divided by."""

    value: torch.Tensor
    typical: float = 0.0  # root mean square of the norms of all values of its kind
    weight: float = 0.0  # norm of the weight that was updated
    gradients: torch.Tensor | None = None
    """For each element of an update, its smallest gradient in any step, relative to a typical one.
    None: all elements count."""
    device: torch.device = CPU
    """The device that computes errors. One thread of the host takes seconds for large weights."""

    def error(self, result: torch.Tensor, scale: ErrorScale) -> tuple[float, float]:
        """Returns the relative error of `result`, and how far its ratio to the reference is from 1.

        The relative error is the norm of the difference over the norm of the value, or over the
        least divisor that `scale` allows. The ratio takes only the difference's part along the
        value. Rounding hardly changes this ratio, because its errors have no common direction.
        """
        reference = self.value.to(self.device)
        wrong, value = difference(result.to(self.device), reference), zero_nonfinite(reference)
        size = max(_norm(value), scale.share * self.typical, scale.of_weight * self.weight)
        if self.gradients is not None:
            clear = self.gradients.to(self.device) >= scale.clear
            wrong, value = wrong[clear], value[clear]
        norm, along = _norm(wrong), abs(float((wrong * value).sum()))
        return (norm / size, along / size**2) if size > 0 else (norm, norm)


References = dict[str, Reference]  # by names such as "gradient of 0.weight in step 2"


def references(
    outcome: Outputs, module: torch.nn.Module, follows_size: bool, device: torch.device
) -> References:
    """Makes References of `outcome`, the losses, gradients and updates of `module` in float64.

    `device` computes errors against them. If updates do not follow the size of gradients
    (`follows_size`, see `bench.records.optimizers`), a mere rounding error makes a full update, so
    updates count only where gradients are clear.
    """
    squares = {
        place: _norm(zero_nonfinite(tensor.to(device))) ** 2 for place, tensor in outcome.items()
    }
    typical = {
        kind: math.sqrt(fmean(_those(kind, squares).values() or [0.0]))
        for kind in ("gradient", "update")
    }
    weights = {
        f"update of {name}": _norm(weight) for name, weight in trained_parameters(module).items()
    }
    expected = {
        place: Reference(
            value,
            typical.get(place.partition(" ")[0], 0.0),
            weights.get(place, 0.0),
            device=device,
        )
        for place, value in outcome.items()
    }
    return expected if follows_size else _add_gradients(expected, squares, device)


def deviation(outcome: Outputs, expected: References, scale: ErrorScale) -> Deviation:
    """Returns the largest errors of `outcome`; infinite if shapes or names differ.

    A loss is a single number, whose ratio to the reference is its error, so only the ratios of
    gradients and updates count.
    """
    errors: dict[str | None, float] = {}
    scales: dict[str, float] = {}
    for place in sorted(expected.keys() | outcome.keys()):
        result, reference = outcome.get(place), expected.get(place)
        if result is None or reference is None or result.shape != reference.value.shape:
            errors[place] = math.inf
            continue
        errors[place], scale_error = reference.error(result, scale)
        if not place.startswith("loss"):
            scales[place] = scale_error
    return replace(worst(errors.items()), scales=scales)


def _add_gradients(
    expected: References, squares: Mapping[str, float], device: torch.device
) -> References:
    gradients = {
        place: reference.value for place, reference in _those("gradient", expected).items()
    }
    elements = sum(gradient.numel() for gradient in gradients.values())
    typical = math.sqrt(sum(_those("gradient", squares).values()) / elements)
    updates = _those("update", expected)
    for place, reference in updates.items():
        start = place.replace("update of", "gradient of") + " in "
        own = [
            gradient.to(device).abs()
            for name, gradient in gradients.items()
            if name.startswith(start)
        ]
        if own:  # parameters without a gradient must not change at all
            least = torch.stack(own).amin(0) / typical
            updates[place] = replace(reference, gradients=least.to("cpu"))
    return {**expected, **updates}


def _those(kind: str, values: Mapping[str, T]) -> dict[str, T]:
    return {place: value for place, value in values.items() if place.startswith(kind)}


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.detach()))
