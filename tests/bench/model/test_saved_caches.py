"""The file with the compiler's caches, which one process writes and another reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from modescope.bench.model import saved_caches
from modescope.bench.records.caches import CACHES, SAVED
from tests.helpers.paths import ROOT


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What torch was told to load."""
    told = list[bytes]()
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", told.append)
    return told


@pytest.mark.parametrize("made", [(b"bytes", "facts"), None])
def test_what_one_process_saves_another_loads(
    loaded: list[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    made: tuple[bytes, str] | None,
) -> None:  # fmt: skip
    monkeypatch.setenv(SAVED, str(tmp_path))
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: made)
    CACHES["shipped"].save()
    assert [path.name for path in tmp_path.iterdir()] == [saved_caches.BUNDLE] * bool(made)
    CACHES["shipped"].load()
    assert loaded == ([b"bytes"] if made else [])


def test_a_process_without_such_a_folder_loads_nothing(
    loaded: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SAVED, raising=False)
    CACHES["shipped"].load()
    assert loaded == []


def test_setting_up_a_state_imports_no_compiler() -> None:
    """Imports of a new process are its own: those before the first call would count for nothing."""
    lines = (
        "import sys, os; from modescope.bench.records.caches import CACHES",
        "[state.set_up() for state in CACHES.values()]",
        "assert 'torch._dynamo' not in sys.modules",
        "import torch._dynamo.config",
        "assert torch._dynamo.config.caching_precompile",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", "\n".join(lines)], env=environment, check=True)


def test_a_process_that_has_the_compiler_is_set_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.config

    monkeypatch.setenv("TORCH_CACHING_PRECOMPILE", "0")
    with torch._dynamo.config.patch(caching_precompile=False):
        CACHES["precompiled"].set_up()
        assert torch._dynamo.config.caching_precompile
