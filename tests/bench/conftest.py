"""Rounds that other programs really interrupt are not left out of what is tested here."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _as_on_a_calm_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = sys.modules.get("modescope.bench.timing.contention")  # not imported for its own sake
    if timing is not None:
        from modescope.bench.timing.rounds import UNWATCHED

        monkeypatch.setattr(timing, "interruptions", lambda: UNWATCHED)
