"""What is known of torch's compiler without importing it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import async_compile
from torch.nn.attention.flex_attention import flex_attention

from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import compiler_counts
from modescope.bench.model import compiler
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes import counting
from tests.helpers.probe_models import WIDTH, variant

MODULE = "torch._inductor.async_compile"


def start(monkeypatch: pytest.MonkeyPatch, ready: Future[str] | None) -> None:
    """Workers of Inductor that are ready with `ready`; None: it has started none."""
    module = SimpleNamespace(AsyncCompile=SimpleNamespace(_ready_future=ready))
    monkeypatch.setitem(sys.modules, MODULE, module)


def test_starting_workers_are_waited_for_and_without_them_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert hasattr(async_compile.AsyncCompile, "_ready_future")
    ready: Future[str] = Future()
    start(monkeypatch, ready)
    threading.Timer(0.1, ready.set_result, ["ready"]).start()
    compiler.wait_for_workers()
    assert ready.done()
    failed: Future[str] = Future()
    failed.set_exception(OSError("no more processes"))
    for none in (failed, None):
        start(monkeypatch, none)
        compiler.wait_for_workers()


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


class Lists(OperatorMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


def compiling() -> nn.Module:
    layers = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)], nn.ReLU())
    compiled: Any = torch.compile(layers, backend="eager")
    return nn.Sequential(compiled, nn.ReLU())


def test_dynamo_compiles_no_operator_mode() -> None:
    module, x = compiling().eval(), torch.randn(2, WIDTH)
    module(x)
    compiled = compiler_counts.count_compilations()
    with Lists() as seen:
        module(x)
    assert seen.names.count("aten.relu") == 2
    assert compiled() == 0


def test_work_of_a_model_that_compiles_itself_is_counted() -> None:
    subject = Subject(compiling().eval(), Inputs((torch.randn(2, WIDTH),), {}))
    built = modes.build(subject, variant(), True, Cpu(), ONE_CALL)
    built.step()
    counts = counting.count(built)
    assert counts.work_note is None
    assert counts.flops == 4 * 2 * 2 * WIDTH * WIDTH


@pytest.mark.parametrize("compiled_before", [True, False])
def test_what_a_model_compiles_itself_is_compiled_after_an_observer(compiled_before: bool) -> None:
    """Dynamo would skip the code for good, and without a word."""
    module, x = compiling().eval(), torch.randn(2, WIDTH)
    if compiled_before:
        module(x)
    with Lists():
        module(x)
    compiled = compiler_counts.count_compilations()
    module(x)
    assert (compiled() == 0) is compiled_before
    module.double()(x.double())
    assert compiled() > 0


class Attends(nn.Module):
    """Its operator has no rule for dispatch modes, and torch compiles it in plain eager."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return flex_attention(x, x, x, score_mod=lambda score, *_: score + 1)


def test_a_model_that_an_observer_cannot_run_runs_afterwards() -> None:
    module, x = Attends(), torch.randn(1, 2, 32, 16)
    with pytest.raises(NotImplementedError), Lists():
        module(x)
    once = module(x)
    with pytest.raises(NotImplementedError), Lists():
        module(x)
    assert torch.equal(module(x), once)


def test_the_users_stance_is_put_back_after_an_observer() -> None:
    module, x = compiling().eval(), torch.randn(2, WIDTH)
    compiled = compiler_counts.count_compilations()
    with torch.compiler.set_stance("eager_on_recompile"):
        with Lists():
            module(x)
        module(x)
    assert compiled() == 0
    module(x)
    assert compiled() > 0
