"""What tests of a cluster's commands share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modescope.bench.cluster import driver
from tests.helpers.fake_scheduler import FakeScheduler
from tests.helpers.paths import ROOT


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands look often, and their workers find modescope."""
    monkeypatch.setattr(driver, "POLL_FIRST_S", 0.02)
    monkeypatch.setattr(driver, "POLL_LAST_S", 0.1)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return tmp_path / "study"


@pytest.fixture
def engine() -> Iterator[FakeScheduler]:
    made = FakeScheduler()
    yield made
    made.kill_all()
