"""What the hooks count when compilations, resets and watches come in any order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.callback import CallbackTrigger, callback_handler

import modescope
from modescope.bench.watching import watch as watching
from modescope.bench.watching.asked import MOST_EVENTS
from modescope.bench.watching.ledger import COMPILED


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def watch() -> modescope.watch:
    return modescope.watch(None, quiet=True)


def test_compilation_that_began_before_the_watch() -> None:
    compiling = callback_handler.install_callbacks(CallbackTrigger.LAZY_BACKWARD, "0/0")
    compiling.__enter__()
    with watch() as result:
        compiling.__exit__(None, None, None)
        time.sleep(0.05)
    assert result.record.compiling_s == 0


def test_compilation_that_ends_after_the_watch() -> None:
    with watch():
        compiling = callback_handler.install_callbacks(CallbackTrigger.LAZY_BACKWARD, "0/0")
        compiling.__enter__()
    compiling.__exit__(None, None, None)
    with watch() as result:
        time.sleep(0.05)
    assert result.record.compiling_s == 0


def test_compilation_after_a_reset() -> None:
    with watch() as result:
        torch._dynamo.reset()
        with callback_handler.install_callbacks(CallbackTrigger.LAZY_BACKWARD, "0/0"):
            time.sleep(0.05)
    assert result.record.compiling_s >= 0.05


def test_function_that_is_compiled_in_each_step() -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def step() -> None:
        torch.compile(work, backend="eager")(torch.ones(2))

    with watch() as result:
        step()
        for _ in range(MOST_EVENTS):
            abs(1)
            len(())
        step()
        assert sys.getprofile() is None
    assert [ask.calls for ask in result.record.asks] == [2]
    assert result.faults == []


def test_interrupted_call_leaves_nothing_for_the_next_watch() -> None:
    with watch():
        watching._SHARED.ledger.shift(COMPILED, 1)  # as if a signal raised before the end
    with watch() as result:
        time.sleep(0.05)
    assert result.record.compiled_s == 0
