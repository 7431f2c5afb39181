"""Finds what rounding may do to a correct program, by stochastic arithmetic.

This is float64 whose results are perturbed as a narrower precision rounds them. How far apart
several such runs end is how far rounding can take a correct program, whatever the order of its
sums, and with ReLUs that rounding switches on or off. After D. S. Parker, "Monte Carlo Arithmetic"
(UCLA CSD-970002, 1997).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.utils import _pytree as pytree

from modescope.bench.model.compiler import OperatorMode
from modescope.bench.records.tolerances import EPS

aten = torch.ops.aten

DECOMPOSED = get_decompositions(
    [
        aten.native_batch_norm,
        aten._native_batch_norm_legit,
        aten.native_batch_norm_backward,
        aten.cudnn_batch_norm,
        aten.cudnn_batch_norm_backward,
        aten.native_group_norm,
        aten.native_group_norm_backward,
        aten.native_layer_norm,
        aten.native_layer_norm_backward,
        aten._softmax,
        aten._softmax_backward_data,
        aten._log_softmax,
        aten._log_softmax_backward_data,
    ]
)
"""Operators that are replaced by their parts, so that the sums inside are perturbed too. A bias
before a batch norm has a gradient of zero because such sums cancel, and their rounding is all that
is left of it."""

PERTURBED_RUNS = 4


class Rounded(OperatorMode):
    """Perturbs the floating results of operators within the rounding of `dtype`.

    A result of n summed values is perturbed sqrt(n) times as much in fp32, in which all precisions
    sum: the error of sums in any order grows with sqrt(n) (Higham, "Accuracy and Stability of
    Numerical Algorithms", 2nd edition, 2.8 and 4.2). n is the number of elements read, divided by
    the number written.

    Without a `seed`, results are rounded to the nearest number with as many digits as `dtype` has.
    This has a direction where they are compared with a constant: a little above 0.5 becomes 0.5.
    """

    def __init__(self, dtype: str, device: torch.device, seed: int | None) -> None:
        super().__init__()
        self.eps = EPS[dtype]
        self.generator = seed if seed is None else torch.Generator(device).manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DECOMPOSED:
            with self:
                return DECOMPOSED[func](*args, **kwargs)
        results = func(*args, **kwargs)
        read = list(_floating_tensors((args, kwargs)))
        if func.is_view or func._schema.is_mutable or not read:
            return results
        known = {tensor.untyped_storage()._cdata for tensor in read}
        most = max(tensor.numel() for tensor in read)

        def rounded(result: torch.Tensor) -> torch.Tensor:
            strided = result.layout is torch.strided
            fresh = strided and result.untyped_storage()._cdata not in known
            if not (fresh and result.is_floating_point() and result.numel()):
                return result
            if self.generator is None:
                return _round(result, self.eps)
            summed = max(1.0, most / result.numel())
            by = self.eps + EPS["fp32"] * (math.sqrt(summed) - 1)
            kind, device = result.dtype, result.device
            drawn = torch.rand(result.shape, dtype=kind, device=device, generator=self.generator)
            return result * (1 + by * (2 * drawn - 1))

        return pytree.tree_map_only(torch.Tensor, rounded, results)


def _round(tensor: torch.Tensor, eps: float) -> torch.Tensor:
    mantissas, exponents = torch.frexp(tensor)  # the former from 0.5 to 1
    step = eps / 2
    return torch.ldexp((mantissas / step).round() * step, exponents)


def _floating_tensors(tree: Any) -> Iterable[torch.Tensor]:
    """Returns the floating tensors in `tree`, but no sparse ones, which have no storage."""
    return (
        leaf
        for leaf in pytree.tree_leaves(tree)
        if isinstance(leaf, torch.Tensor)
        and leaf.is_floating_point()
        and leaf.layout is torch.strided
    )
