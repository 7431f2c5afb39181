"""How many cores a process may use, where the system says so and where it does not."""

from __future__ import annotations

import os

import pytest

from bench.cores import usable_cores


def test_cores_that_the_process_is_allowed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("all_of_them", "usable"), [(8, 8), (None, 1)])
def test_all_cores_where_no_call_says_which(
    all_of_them: int | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: all_of_them)
    assert usable_cores() == usable
