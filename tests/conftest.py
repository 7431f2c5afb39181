from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bench.config import Request
from tests.commands import Answer, Cli


def pytest_configure() -> None:
    """A shell that starts the tests in the background ignores Ctrl-C, and what they start would."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is None:
        return
    import torch  # here, so that tests that need no torch do not wait for it

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU, and torch sees none here")


@pytest.fixture(scope="session", autouse=True)
def one_compiler_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What compile_cache=warm finds: empty at first, then shared by the whole session.

    By all its workers, too: what one has compiled, the other finds. Set before the first test,
    because children inherit the environment of the forkserver, which starts with the first of them.
    """
    with pytest.MonkeyPatch.context() as patch:
        own = tmp_path_factory.getbasetemp()
        folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "inductor"
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        patch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
        yield


@pytest.fixture(scope="module")
def as_in_a_child() -> Iterator[None]:
    """What was imported is not collected again, which a run asks for several times: 0.1 s each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Types a command line: `python run.py` with these arguments."""

    def type_(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])

    return type_


def _with_results(folder: Path, arguments: Sequence[str]) -> list[str]:
    """The arguments, and where results go unless they say it."""
    said = any("results_dir=" in each for each in arguments)
    return [*([] if said else [f"results_dir={folder}"]), *arguments]


@pytest.fixture
def ask(typed: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """What a command line asks for; results would go to a temporary folder."""
    import run

    folder = tmp_path_factory.mktemp("asked")

    def requests(*arguments: str) -> list[Request]:
        typed(*_with_results(folder, arguments))
        return run.composed()

    return requests


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def cli(typed: Callable[..., None], capfd: pytest.CaptureFixture[str], results: Path) -> Cli:
    """`python run.py` in this process; what children print would be seen too."""
    import run

    def call(*arguments: str) -> Answer:
        typed(*_with_results(results, arguments))
        status = run.main()
        return Answer(status, *capfd.readouterr())

    return call


Ask = Callable[..., list[Request]]
