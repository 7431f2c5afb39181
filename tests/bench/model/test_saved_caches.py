"""The file with the compiler's caches, which one process writes and another reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modescope.bench.model import saved_caches
from modescope.bench.records.caches import CACHES, SAVED


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
