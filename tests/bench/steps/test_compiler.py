"""What is known of torch's compiler without importing it."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from modescope.bench.steps import compiler

MODULE = "torch._inductor.async_compile"


def start(monkeypatch: pytest.MonkeyPatch, ready: Future[str] | None) -> None:
    """Workers of Inductor that are ready with `ready`; None: it has started none."""
    module = SimpleNamespace(AsyncCompile=SimpleNamespace(_ready_future=ready))
    monkeypatch.setitem(sys.modules, MODULE, module)


def test_starting_workers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ready: Future[str] = Future()
    start(monkeypatch, ready)
    threading.Timer(0.1, ready.set_result, ["ready"]).start()
    begin = time.monotonic()
    compiler.wait_for_workers()
    assert ready.done()
    assert time.monotonic() - begin >= 0.09


def test_workers_that_cannot_start_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ready: Future[str] = Future()
    ready.set_exception(OSError("no more processes"))
    start(monkeypatch, ready)
    compiler.wait_for_workers()


def test_without_workers_there_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, None)
    compiler.wait_for_workers()
    monkeypatch.delitem(sys.modules, MODULE)
    compiler.wait_for_workers()


def test_inductor_tells_whether_its_workers_are_ready() -> None:
    from torch._inductor.async_compile import AsyncCompile

    assert hasattr(AsyncCompile, "_ready_future")
