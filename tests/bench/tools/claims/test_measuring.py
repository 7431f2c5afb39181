"""What experiments share, on calls whose allocations, durations and compilations are known."""

from __future__ import annotations

import time

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.tools.claims.measuring import (
    allocated_by,
    columns,
    compiler_work,
    first_call_s,
    refusal,
    speedup,
    watched,
)
from modescope.bench.tools.testbed.workloads import delay

pytestmark = pytest.mark.usefixtures("as_in_a_child")

SHORT_S, LONG_S = 200e-6, 300e-6


def test_the_result_is_held_and_the_rest_is_not() -> None:
    outcome = allocated_by(lambda: torch.ones(10) + torch.ones(10), Cpu())
    assert (outcome.allocated_bytes, outcome.released_bytes, outcome.left_bytes) == (120, 80, 40)


def test_a_call_is_watched_from_its_first_time() -> None:
    coming = iter([torch.zeros(20)])
    result, outcome = watched(lambda: next(coming).add(1), Cpu())
    assert (tuple(result.shape), outcome.left_bytes) == ((20,), 80)


def test_a_speedup_is_that_of_the_case() -> None:
    outcome = speedup(delay(SHORT_S), delay(LONG_S), Cpu(), timed_max_s=0.1)
    assert outcome.low < outcome.value < outcome.high
    assert outcome.value == pytest.approx(LONG_S / SHORT_S, rel=0.05)


def test_a_first_call_is_timed_once() -> None:
    coming = iter([0.01])
    assert first_call_s(lambda: time.sleep(next(coming)), Cpu()) >= 0.01


def test_rows_become_columns() -> None:
    assert columns({"a": (1, 2), "b": (3, 4)}) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_a_refusal_is_what_torch_says() -> None:
    x = torch.ones(4)
    assert "invalid for input of size 4" in (refusal(lambda: x.view(3)) or "")
    assert refusal(lambda: x.view(2, 2)) is None


def test_breaks_and_graphs_are_counted() -> None:
    """With a backend that generates nothing: the compiler's front is what is counted."""

    def breaks(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("a break")
        return y * 2

    torch.compiler.reset()
    compiled = torch.compile(breaks, backend="eager")
    first, again = (compiler_work(lambda: compiled(torch.ones(3))) for _ in range(2))
    assert (first.graphs, first.breaks, first.kernels) == (2, 1, 0)
    assert (again.compilations, again.graphs, again.breaks) == (0, 0, 0)
    torch.compiler.reset()
