"""Kernels that a call enters: noted by kernels in their place, and read off torch's tables."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.tools.claims.probing import probed, visited

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


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("autocast", [False, True])
def test_what_torchs_tables_say_is_what_runs(mode: type, autocast: bool) -> None:
    calls = {
        "aten::add.Tensor": lambda x, w: torch.add(x, w),
        "aten::mm": lambda x, w: torch.mm(x, w),
        "aten::view": lambda x, w: x.view(-1),
    }
    for operator, call in calls.items():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast), mode():
            x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
            path = visited(operator, (x,) if operator == "aten::view" else (x, w))
            with probed(operator, path[:-1]) as entered:
                call(x, w)
        assert [*entered, "CPU"] == list(path)


def test_the_path_depends_on_the_mode() -> None:
    x, w = operands()
    assert visited("aten::mm", (x, w)) == ("AutogradCPU", "CPU")
    with torch.autocast("cpu", torch.bfloat16):
        assert visited("aten::mm", (x, w)) == ("AutocastCPU", "AutogradCPU", "CPU")
    with torch.inference_mode():
        made = torch.ones(2, 2)
        assert visited("aten::mm", (made, made)) == ("CPU",)
        assert visited("aten::view", (x,)) == ("ADInplaceOrView", "CPU")
