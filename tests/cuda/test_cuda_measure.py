"""`modescope.measure` on a GPU."""

from __future__ import annotations

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


def test_the_current_gpu_stays_current() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    torch.ones(1, device="cuda")
    before = torch.cuda.current_device()
    modescope.measure(lambda: 1, lambda: 2, device=f"cuda:{1 - before}", seconds=0.1)
    assert torch.cuda.current_device() == before
