from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.load import cache


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, apart from the user's."""
    folder = tmp_path_factory.mktemp("caches")
    monkeypatch.setattr(cache, "folder", lambda: folder)
    return folder
