"""Samples leave the program's profiler as it was, whatever the program does meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from modescope.bench.watching import samples as sampling
from modescope.bench.watching import torch_names
from modescope.bench.watching.ledger import Ledger
from modescope.bench.watching.samples import Samples
from modescope.bench.watching.torch_names import is_profiling


@pytest.fixture
def samples() -> Iterator[Samples]:
    made = Samples(Ledger())
    yield made
    made.close()


def in_backward(act: Callable[[], None]) -> None:
    class Act(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            act()
            return gradients[0]

    x = torch.ones(2, requires_grad=True)
    torch.sum(Act.apply(x)).backward()  # type: ignore[no-untyped-call]


def spin() -> None:
    """Runs the bytecodes between which Python calls what was asked for."""
    for _ in range(10_000):
        pass


def test_none_begins_in_a_backward_pass(samples: Samples) -> None:
    in_backward(samples._begin)
    samples.close()
    assert not is_profiling()


def test_none_ends_in_a_backward_pass(samples: Samples) -> None:
    samples._begin()
    in_backward(samples.end)
    assert is_profiling()
    samples.end()
    assert not is_profiling()


def test_end_in_another_thread(samples: Samples) -> None:
    samples._begin()
    worker = threading.Thread(target=samples.close)
    worker.start()
    worker.join()
    spin()
    assert not is_profiling()


def test_sample_in_which_a_compilation_ran_is_dropped() -> None:
    from modescope.bench.watching.ledger import COMPILING

    ledger = Ledger()
    samples = Samples(ledger)
    samples._begin()
    ledger.shift(COMPILING, 1)
    ledger.shift(COMPILING, -1)
    samples.end()
    assert samples.taken == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_signal_that_raises_while_the_main_thread_is_called() -> None:
    def raise_there() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        spin()

    def work() -> None:
        sampling._in_main_thread(raise_there)
        spin()

    with pytest.raises(KeyboardInterrupt):
        work()


def test_none_begins_while_torch_is_imported(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    samples._begin()
    monkeypatch.undo()
    assert not is_profiling()


def test_sample_ends_soon_after_its_length(samples: Samples) -> None:
    samples._start -= 1
    assert samples.tick() == sampling.SHORTEST_S  # when it is asked to begin
    spin()
    assert is_profiling()
    assert samples.tick() == sampling.SHORTEST_S


def test_a_call_that_python_makes_within_the_end_changes_nothing(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_profile = torch_names.end_profile

    def interrupted() -> object:
        samples.end()  # as the main thread may do between any two bytecodes
        return end_profile()

    monkeypatch.setattr(torch_names, "end_profile", interrupted)
    samples._begin()
    samples.end()
    assert not samples._closed
    assert len(samples.taken) == 1
    assert not is_profiling()
