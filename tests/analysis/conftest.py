from __future__ import annotations

from pathlib import Path

import pytest

from analysis import cache


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the caches of this test lie: not among those of whoever runs it."""
    folder = tmp_path_factory.mktemp("caches")
    monkeypatch.setattr(cache, "folder", lambda: folder)
    return folder
