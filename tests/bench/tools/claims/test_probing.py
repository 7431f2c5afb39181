"""Kernels that note that they were entered."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.tools.claims.probing import probed

BOTH = ["AutocastCPU", "AutogradCPU"]


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)


def test_kernels_are_noted_in_the_order_in_which_they_run() -> None:
    x, w = operands()
    with torch.autocast("cpu", torch.bfloat16), probed("aten::mm", BOTH) as entered:
        y = torch.mm(x, w)
    assert entered == BOTH
    assert torch.equal(y, torch.full((2, 2), 2.0))  # passed on to the CPU's, without a cast


def test_only_what_is_called_within_counts() -> None:
    x, w = operands()
    with probed("aten::add.Tensor", BOTH) as entered:
        torch.mm(x, w)
    torch.add(x, w)
    assert entered == []


@pytest.mark.parametrize("failing", [False, True])
def test_afterwards_torchs_own_are_back(failing: bool) -> None:
    x, w = operands()
    try:
        with probed("aten::mm", BOTH):
            assert torch.mm(x, w).grad_fn is None
            if failing:
                raise KeyError
    except KeyError:
        pass
    with torch.autocast("cpu", torch.bfloat16):
        y = torch.mm(x, w)
    assert y.dtype == torch.bfloat16
    assert y.grad_fn is not None
