"""The program goes on as without a watch: forks, threads, watches that overlap, a full disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo import config, utils
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import modescope
from modescope.bench.watching import watch as watching
from modescope.bench.watching.torch_names import is_profiling


def test_watches_that_end_in_another_order() -> None:
    def state() -> list[object]:
        translator = InstructionTranslatorBase
        kept = utils._compilation_metrics.maxlen
        breaks = (translator.log_graph_break, translator.step_graph_break)
        return [*breaks, config.error_on_recompile, kept]

    utils.set_compilation_metrics_limit(200)
    before = state()
    first = modescope.watch(None, quiet=True, stop_on="recompile")
    second = modescope.watch(None, quiet=True, stop_on="recompile")
    for open_ in (first, second):
        open_.__enter__()
    for end in (first, second):
        end.__exit__(None, None, None)
    assert state() == before
    utils.set_compilation_metrics_limit(utils.DEFAULT_COMPILATION_METRICS_LIMIT)


def test_decorated_function_in_threads_that_overlap() -> None:
    inside, leave = threading.Event(), threading.Event()

    @modescope.watch(None, quiet=True)
    def work(first: bool) -> None:
        if first:
            inside.set()
            leave.wait()

    worker = threading.Thread(target=work, args=(True,))
    worker.start()
    inside.wait()
    (of_worker,) = watching._SHARED.watches
    work(False)
    assert watching._SHARED.watches == [of_worker]
    leave.set()
    worker.join()
    assert watching._SHARED.watches == []


def test_threads_of_the_program_are_its_own() -> None:
    before = threading.enumerate()
    with modescope.watch(None, quiet=True):
        assert threading.enumerate() == before


def test_record_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "watch").write_text("a file where the folder would be")
    with modescope.watch(tmp_path) as result:
        pass
    assert result.path is None
    assert "FileExistsError" in capsys.readouterr().err


def test_record_goes_where_the_program_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    with modescope.watch(quiet=True) as result:
        monkeypatch.chdir("data")
    assert result.path is not None
    assert result.path.parent == tmp_path / "results/main/watch"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_process_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    child = 0
    try:
        with modescope.watch(tmp_path):
            (open_,) = watching._SHARED.watches
            open_._samples._begin()
            child = os.fork()
    finally:
        if not child:
            os._exit(int(is_profiling()))
    assert os.waitpid(child, 0)[1] == 0
    assert capfd.readouterr().err.count("the rest") == 1
    assert len(list((tmp_path / "watch").iterdir())) == 1


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(3, dtype=torch.int64, device="meta"),
        torch.ones(3, dtype=torch.uint16),
        torch.nested.nested_tensor([torch.ones(2, dtype=torch.int64)], layout=torch.jagged),
    ],
    ids=["without data", "no range", "nested"],
)
def test_tensors_of_other_kinds(x: torch.Tensor) -> None:
    torch._dynamo.reset()
    with modescope.watch(None, quiet=True) as result:
        torch.compile(torch.clone, backend="eager")(x)
    assert result.frame["calls"].tolist() == [1]


def test_transformed_tensor() -> None:
    torch._dynamo.reset()
    with modescope.watch(None, quiet=True) as result:
        torch.vmap(torch.compile(lambda x: x + 1, backend="eager"))(torch.ones(2, 3).long())
    assert result.frame["calls"].tolist() == [1]


UNSTABLE = pytest.mark.skipif(
    torch.__version__ < "2.12", reason="an older torch calls a mode that it compiles, too"
)


@pytest.mark.parametrize(
    "kind", [pytest.param(TorchFunctionMode, marks=UNSTABLE), TorchDispatchMode]
)
def test_mode_of_the_program_sees_only_its_own(kind: type[Any]) -> None:
    seen = []

    def note(self: object, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(function)
        return function(*args, **(kwargs or {}))

    names = ("__torch_function__", "__torch_dispatch__")
    mode = type("Mode", (kind,), dict.fromkeys(names, note))
    torch._dynamo.reset()
    with modescope.watch(None, quiet=True), mode():
        torch.compile(lambda x: x + 1, backend="eager")(torch.arange(3))
    assert "aminmax" not in str(seen)
    assert "add" in str(seen)


def test_subclass_sees_only_its_own_calls() -> None:
    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(function)
            parent: Any = super()
            return parent.__torch_function__(function, types, args, kwargs or {})

    def calls() -> int:
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        x = torch.arange(3).as_subclass(Sub)
        seen.clear()
        for _ in range(3):
            compiled(x)
        return len(seen)

    seen: list[Any] = []
    expected = calls()
    with modescope.watch(None, quiet=True):
        assert calls() == expected


def test_what_runs_after_its_call_is_refused() -> None:
    async def wait() -> None: ...

    def count() -> Iterator[int]:
        yield 1

    for function in (wait, count):
        with pytest.raises(modescope.UsageError, match=function.__name__):
            modescope.watch(None)(function)


def test_program_outlives_a_fault_of_the_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(watching.Watch, "_record", fail)
    with pytest.raises(KeyError), modescope.watch(None):
        raise KeyError
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert watching._SHARED.watches == []
