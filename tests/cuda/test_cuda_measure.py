"""`modescope.measure` on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import modescope

pytestmark = pytest.mark.cuda


def test_functions_on_a_gpu_are_waited_for_and_their_device_is_found() -> None:
    x = torch.rand(2048, 2048, device="cuda")
    found = modescope.measure(lambda: (x @ x) @ x, lambda: x @ x)
    assert (found.device, found.verdict) == ("cuda", "faster")
    assert found.speedup == pytest.approx(2, rel=0.2)
    least_s = 2 * 2048**3 / 1e15  # at a PFLOP/s
    assert found.latency_s > least_s


def test_a_function_on_another_gpu_than_the_measured_one_is_refused() -> None:
    torch.cuda.init()
    there = torch.ones(8, device="cuda")
    with pytest.raises(modescope.UsageError, match="a function returns a tensor on cuda"):
        modescope.measure(lambda: there + 1, lambda: there * 2, device="cpu", seconds=0.1)


def test_a_module_on_the_gpu_of_this_process_is_compared(tmp_path: Path) -> None:
    """Its plain tensor is where the process that measures it has the module."""

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8, device="cuda")
            self.mask = torch.ones(8, device="cuda")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.linear(x) * self.mask
            return result

    found = modescope.compare(
        Masked(), torch.ones(4, 8, device="cuda"), modes=["eager", "compile"], budget="smoke",
        device="cuda", study=tmp_path / "study", progress=False, overrides=["profile=false"],
    )  # fmt: skip
    assert list(found.frame["status"]) == ["ok", "ok"], list(found.frame["reason"])
