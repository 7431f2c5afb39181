"""What experiments share, on calls whose allocations, durations and compilations are known."""

from __future__ import annotations

import time

import pytest
import torch

from bench.claims.measuring import (
    allocated_by,
    compiling,
    first_call_s,
    speedup,
    watched,
)
from bench.devices import Cpu
from bench.testbed.workloads import delay

pytestmark = pytest.mark.usefixtures("as_in_a_child")

SHORT_S, LONG_S = 200e-6, 300e-6


def test_the_result_is_held_and_the_rest_is_not() -> None:
    found = allocated_by(lambda: torch.ones(10) + torch.ones(10), Cpu())
    assert (found.allocated_bytes, found.released_bytes, found.left_bytes) == (120, 80, 40)


def test_a_call_is_watched_from_its_first_time() -> None:
    coming = iter([torch.zeros(20)])
    result, found = watched(lambda: next(coming).add(1), Cpu())
    assert (tuple(result.shape), found.left_bytes) == ((20,), 80)


def test_a_speedup_is_that_of_the_case() -> None:
    found = speedup(delay(SHORT_S), delay(LONG_S), Cpu(), timed_max_s=0.1)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(LONG_S / SHORT_S, rel=0.05)


def test_a_first_call_is_timed_once() -> None:
    coming = iter([0.01])
    assert first_call_s(lambda: time.sleep(next(coming)), Cpu()) >= 0.01


def test_breaks_and_graphs_are_counted() -> None:
    """With a backend that generates nothing: the compiler's front is what is counted."""

    def breaks(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("a break")
        return y * 2

    torch.compiler.reset()
    compiled = torch.compile(breaks, backend="eager")
    with compiling() as seen:
        compiled(torch.ones(3))
    first = seen.found
    assert (first.graphs, first.breaks, first.kernels) == (2, 1, 0)
    with compiling() as seen:
        compiled(torch.ones(3))
    assert (seen.found.compilations, seen.found.graphs, seen.found.breaks) == (0, 0, 0)
    torch.compiler.reset()
