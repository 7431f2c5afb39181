"""Compares the randomness of two steps over repeated calls, and switches randomness off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from modescope.bench.checking.checks import Check
from modescope.bench.model.outputs import Outputs
from modescope.bench.model.subject import Built
from modescope.bench.records.tolerances import TOLERANCE

KEPT = 256
"""The largest number of elements of each result that are compared."""

LEAST_SPREAD = 10.0
"""The least relative spread of results that are compared here, in multiples of the tolerance.
Smaller spreads are left to the check of errors, because rounding differs between two steps, too."""

Draws = dict[str, torch.Tensor]  # by place, as (calls, elements)


def take(check: Check, built: Built, calls: int, seed: int) -> Draws:
    """Calls the step of `built` `calls` times; returns each result, stacked over the calls.

    The inputs are the same in each call. Random numbers are seeded with `seed` once, before the
    first call. A result that a call lacks counts as zero: a layer that is skipped at random has no
    gradient. Results whose size changes from call to call are left out.
    """
    torch.manual_seed(seed)
    seen = [_sample(check.results(built)) for _ in range(calls)]
    zeros = {
        place: torch.zeros_like(tensor) for outputs in seen for place, tensor in outputs.items()
    }
    rows = {place: [outputs.get(place, zero) for outputs in seen] for place, zero in zeros.items()}
    return {
        place: torch.stack(tensors)
        for place, tensors in rows.items()
        if len({tensor.shape for tensor in tensors}) == 1
    }


@dataclass(frozen=True)
class DrawsComparison:
    """How two groups of random results differ in spread and mean."""

    spread: float  # variance of the first over that of the second
    shift: float  # squared distance of their means, over their variances
    p_value: float  # of a permutation test: how often equal steps differ as much

    @property
    def finite(self) -> bool:
        """Whether `spread` and `shift` are finite."""
        return math.isfinite(self.spread) and math.isfinite(self.shift)


EQUAL = DrawsComparison(1.0, 0.0, 1.0)


def compare(mode: Draws, eager: Draws, dtype: str, permutations: int) -> DrawsComparison:
    """Compares spread and mean of the mode's results with those of eager, over as many calls.

    Only results that are random in eager count: their spread exceeds a share of the tolerance of
    `dtype`. `permutations` is how many random assignments the test draws. The p-value is twice the
    smaller of two p-values, of the spread and of the mean. Both come from random assignments of the
    calls to the two groups, so they hold for any distribution. It is at least 2 / (permutations +
    1).
    """
    distances = _distances(mode, eager, LEAST_SPREAD * TOLERANCE[dtype])
    if distances is None:
        return EQUAL
    calls = len(distances)
    own = torch.zeros(1, calls, dtype=torch.bool)
    own[0, : calls // 2] = True
    spread, shift = _statistics(distances, own)
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(permutations, calls, generator=generator).argsort(1)
    spreads, shifts = _statistics(distances, order < calls // 2)
    by_spread = _share(spreads.log().abs(), spread.log().abs())
    by_shift = _share(shifts, shift)
    return DrawsComparison(float(spread), float(shift), min(1.0, 2 * min(by_spread, by_shift)))


def _sample(results: Outputs) -> Outputs:
    def sampled(tensor: torch.Tensor) -> torch.Tensor:
        flat = tensor.flatten()
        if flat.numel() <= KEPT:
            return flat.cpu()
        kept = torch.arange(KEPT, device=flat.device) * (flat.numel() - 1) // (KEPT - 1)
        return flat[kept].cpu()

    return {place: sampled(tensor) for place, tensor in results.items()}


def _distances(mode: Draws, eager: Draws, least: float) -> torch.Tensor | None:
    """Returns the matrix of squared distances between the results of any two calls.

    Rows and columns are the mode's calls, then eager's. Distances are means over all results, each
    divided by its spread in eager, so that all weigh the same. Results that the mode lacks in all
    calls count as zero, as in `take`. Results with a relative spread in eager below `least` are
    left out; None if none remains.
    """
    parts = []
    for place, usual in sorted(eager.items()):
        own = mode.get(place, torch.zeros_like(usual))
        if own.shape != usual.shape:
            continue
        spread, size = float(usual.var(0).mean()), float(usual.square().mean())
        if spread > 0 and spread >= least**2 * size:
            parts.append(torch.cat([own, usual]) / math.sqrt(spread * usual.shape[1]))
    if not parts:
        return None
    rows = torch.cat(parts, 1)
    return torch.cdist(rows, rows).square() / len(parts)


def _statistics(distances: torch.Tensor, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns `spread` and `shift` of a DrawsComparison, for each way to form the two groups.

    A row of the boolean matrix `first` is one way: which calls are in the first group. `distances`
    comes from `_distances`.
    """
    group, other = first.double(), (~first).double()
    pairs = group.sum(1) * (group.sum(1) - 1)
    own = ((group @ distances) * group).sum(1) / pairs
    others = ((other @ distances) * other).sum(1) / pairs
    across = ((group @ distances) * other).sum(1) / group.sum(1) ** 2
    tiny = torch.finfo(torch.float64).tiny
    return own.clamp(min=tiny) / others.clamp(min=tiny), (2 * across - own - others) / (
        own + others
    ).clamp(min=tiny)


def _share(permuted: torch.Tensor, seen: torch.Tensor) -> float:
    """Returns the share of `permuted` at least as extreme as `seen`, which is counted with them."""
    return float(((permuted >= seen).sum() + 1) / (len(permuted) + 1))


def _never_drop(module: nn.Module) -> None:
    for part in module.modules():
        drops = any(word in type(part).__name__.lower() for word in ("drop", "stochasticdepth"))
        for name, value in vars(part).items():
            is_probability = "drop" in name.lower() or (drops and name in ("p", "prob", "rate"))
            if is_probability and isinstance(value, float) and 0 < value <= 1:
                setattr(part, name, 0.0)


def _evaluate(module: nn.Module) -> None:
    """Sets all parts of `module` to eval mode, but norms and RNNs.

    Norms compute something else in eval mode, and cuDNN's backward of RNNs needs train mode.
    """
    for part in module.modules():
        if not isinstance(part, (_NormBase, nn.RNNBase)):
            part.training = False


SWITCHES: dict[str, Callable[[nn.Module], None]] = {
    "all probabilities of dropout are 0": _never_drop,
    "all modules but norms and recurrent networks are in eval()": _evaluate,
}
"""Functions that switch random numbers off in a module, which they change. They are applied in this
order, one after the other, until no random numbers are left."""
