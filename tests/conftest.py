from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation
from tests.helpers.commands import Answer, Ask, Cli
from tests.helpers.paths import ROOT

MOST_CPU_S = 40.0
"""Twice what a test of the fast lane may take, as machines differ by as much in speed."""


def pytest_configure() -> None:
    """Restores Ctrl-C, which processes in a shell's background ignore, and their children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that takes long fails unless it is marked as one of `make test-full`.

    Counted in seconds of CPU, which other programs on the machine change little.
    """
    start_s = _cpu_s()
    result = yield
    used_s = _cpu_s() - start_s
    if used_s > MOST_CPU_S and item.get_closest_marker("full") is None:
        pytest.fail(f"takes {used_s:.0f} s of CPU: mark it `full`, or let it do less")
    return result


def _cpu_s() -> float:
    """Of this process and the children that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leaves tests and what they import out of garbage collection, which would take seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is None:
        return
    import torch  # here, so that tests that need no torch do not wait for it

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU, and torch sees none here")


@pytest.fixture(scope="session", autouse=True)
def one_compiler_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cache of compile_cache=warm: empty at first, then shared by the whole session.

    By all its workers, too, so that each compiles less. Set before the first test,
    because children inherit the environment of the forkserver, which starts with the first of them.
    """
    with pytest.MonkeyPatch.context() as patch:
        own = tmp_path_factory.getbasetemp()
        folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "inductor"
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        patch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiler_in_the_forkserver() -> Iterator[None]:
    """All tests of a worker share one forkserver: without the compiler each child imports it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation, "start", lambda compiler: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _unsynced() -> Iterator[None]:
    """A test's files need not survive a power cut: each sync takes 6 ms, and a study has many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def _settings() -> dict[str, Any]:
    """Torch's global settings that a case changes, by name."""
    import torch
    import torch._functorch.config
    import torch.compiler.config

    inductor = sys.modules.get("torch._inductor.config")
    return {
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "tf32": torch.backends.cudnn.allow_tf32,
        "math": torch.backends.cuda.math_sdp_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "tag": torch.compiler.config.cache_key_tag,
        "gives up": torch._dynamo.config.fail_on_recompile_limit_hit,
        "activation budget": torch._functorch.config.activation_memory_budget,
        "freezing": inductor is not None and inductor.freezing,
    }


@pytest.fixture(autouse=True)
def logging_kept() -> Iterator[None]:
    """Hydra configures logging, for `--info` down to debugging, on a stderr that pytest closes."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def restored_settings() -> Iterator[None]:
    """Cases that run in this process change global settings, and other tests follow."""
    if "torch" in sys.modules:  # else this test imports none
        yield from _restored()
    else:
        yield


@pytest.fixture(scope="module")
def settings_restored_after_module() -> Iterator[None]:
    """For cases that run in this process once for all tests of a file."""
    yield from _restored()


def _restored() -> Iterator[None]:
    import torch

    from modescope.bench.modes import attention, fp32_products

    before = _settings()
    yield
    if fp32_products.used() in (None, "bf32"):  # with which torch cannot tell others
        fp32_products.use("fp32")
    if _settings() == before:
        return
    torch.set_num_threads(before["threads"])
    torch.set_float32_matmul_precision(before["precision"])
    torch.backends.cudnn.allow_tf32 = before["tf32"]
    attention.use(attention.DEFAULT)
    torch.compiler.config.cache_key_tag = before["tag"]
    torch._dynamo.config.fail_on_recompile_limit_hit = before["gives up"]
    torch._functorch.config.activation_memory_budget = before["activation budget"]
    torch._inductor.config.freezing = before["freezing"]


@pytest.fixture(scope="module")
def as_in_a_child() -> None:
    """Imported objects are not collected again, which a run does several times: 0.1 s each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """As in a case by default, and in each claim: a second one slows tiny operators down."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def in_run_py(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line is that of `python run.py`."""
    monkeypatch.setattr(sys, "argv", [str(ROOT / "run.py")])


def _with_results(folder: Path, arguments: Sequence[str]) -> list[str]:
    """The arguments, with a results folder unless they name one."""
    said = any("results_dir=" in each for each in arguments)
    return [*([] if said else [f"results_dir={folder}"]), *arguments]


@pytest.fixture
def ask(in_run_py: None, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """The requests of a command line; results would go to a temporary folder."""
    from modescope.bench.command_line import collect

    folder = tmp_path_factory.mktemp("asked")

    def requests(*arguments: str) -> list[Request]:
        return collect(_with_results(folder, arguments))

    return requests


@pytest.fixture
def ask_quickly(ask: Ask, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """As `ask` with -m, composed in 10 ms; by Hydra with an option."""
    from tests.helpers import composing

    folder = tmp_path_factory.mktemp("asked")

    def requests(*arguments: str) -> list[Request]:
        if any(each.startswith("-") for each in arguments):
            return ask(*arguments)
        return composing.requests(_with_results(folder, arguments))

    return requests


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def cli(
    in_run_py: None,
    capfd: pytest.CaptureFixture[str],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """`python run.py` in this process, on a quiet machine; the output includes that of children."""
    from modescope.bench.run import main
    from modescope.bench.sweep import others

    monkeypatch.setattr(others, "warning", lambda: "")

    def call(*arguments: str) -> Answer:
        status = main(_with_results(results, arguments))
        return Answer(status, *capfd.readouterr())

    return call
