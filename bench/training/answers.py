"""What float64 makes of some steps of training, and how far from it another precision may be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from bench import modes
from bench.outputs import Outputs
from bench.records import Variant
from bench.tolerances import EPS, TOLERANCE
from bench.training.recomputing import trained

T = TypeVar("T")

LEAST_SHARE = 1e-2
"""Of the root mean square of all gradients' norms: below it a gradient is held against that, for
some are zero but for rounding, as those of a key's bias in attention and of a bias before a batch
norm. The latter came to 1 to 2 EPS of that mean in fp32, and to a tenth of one in bf16 and fp16."""

LEAST_CLEAR, CLEAR_EPS = 1e-3, 10
"""Gradients of this size beside others, or so many EPS, have a sign that rounding leaves alone."""


@dataclass(frozen=True)
class Ruler:
    """What errors are held against at least, so that one rounding makes no more than tolerance."""

    share: float  # of what is typical of gradients, or of updates
    of_weight: float  # of the weight that was updated
    clear: float  # elements with gradients below it have updates of any size


EXACT = Ruler(LEAST_SHARE, 0.0, LEAST_CLEAR)


def ruler(variant: Variant) -> Ruler:
    """For gradients computed, and weights stored, as `variant` does it."""
    tolerance, eps = TOLERANCE[variant.dtype], EPS[variant.dtype]
    weight_eps = torch.finfo(modes.weight_dtype(variant)).eps
    share, clear = max(LEAST_SHARE, eps / tolerance), max(LEAST_CLEAR, CLEAR_EPS * eps)
    return Ruler(share, weight_eps / tolerance, clear)


@dataclass(frozen=True)
class Answer:
    """A loss, gradient or update, and what an error of it is held against."""

    value: torch.Tensor
    typical: float = 0.0  # root mean square of the norms of all that are of its kind
    weight: float = 0.0  # norm of the weight that was updated
    gradients: torch.Tensor | None = None
    """The smallest that each element had in any step, over a typical one; None: all count."""

    def error(self, came: torch.Tensor, by: Ruler) -> float:
        """Norm of the difference over that of the value, or over the least that `by` allows."""
        difference = came - self.value
        if self.gradients is not None:
            difference = difference[self.gradients >= by.clear]
        size = max(_norm(self.value), by.share * self.typical, by.of_weight * self.weight)
        norm = _norm(difference)
        return norm / size if size > 0 else norm


Answers = dict[str, Answer]  # by names such as "gradient of 0.weight in step 2"


def answers(outcome: Outputs, module: torch.nn.Module, follows_size: bool) -> Answers:
    """From the losses, gradients and updates of `module` in float64.

    Where updates do not follow the size of gradients (`bench.training.choices`), those of rounding
    errors are as long as any, so they count where gradients are clear.
    """
    typical = {kind: _root_mean_square(_those(kind, outcome)) for kind in ("gradient", "update")}
    weights = {f"update of {name}": _norm(weight) for name, weight in trained(module).items()}
    found = {
        place: Answer(value, typical.get(place.partition(" ")[0], 0.0), weights.get(place, 0.0))
        for place, value in outcome.items()
    }
    return found if follows_size else _with_gradients(found)


def errors(outcome: Outputs, expected: Answers, by: Ruler) -> Iterator[tuple[str, float]]:
    """Of each, by name; infinite where a shape is another or only one of both has it."""
    for place in sorted(expected.keys() | outcome.keys()):
        came, answer = outcome.get(place), expected.get(place)
        if came is None or answer is None or came.shape != answer.value.shape:
            yield place, math.inf
        else:
            yield place, answer.error(came, by)


def _with_gradients(found: Answers) -> Answers:
    gradients = {place: each.value for place, each in _those("gradient", found).items()}
    elements = sum(gradient.numel() for gradient in gradients.values())
    typical = math.sqrt(sum(_norm(each) ** 2 for each in gradients.values()) / elements)
    updates = dict(_those("update", found))
    for place, answer in updates.items():
        of = place.replace("update of", "gradient of") + " in "
        own = [gradient.abs() for name, gradient in gradients.items() if name.startswith(of)]
        if own:  # what has no gradient stays where it is, all of it
            updates[place] = replace(answer, gradients=torch.stack(own).amin(0) / typical)
    return {**found, **updates}


def _root_mean_square(tensors: Outputs) -> float:
    return math.sqrt(sum(_norm(each) ** 2 for each in tensors.values()) / len(tensors))


def _those(kind: str, of: Mapping[str, T]) -> dict[str, T]:
    return {place: value for place, value in of.items() if place.startswith(kind)}


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.detach()))
