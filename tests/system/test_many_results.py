"""Many results are read within the limits of `tests.trials.many_results`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trials import many_results

pytestmark = pytest.mark.full


def test_a_hundred_thousand_runs_are_read_within_the_limits(tmp_path: Path) -> None:
    lines = many_results.many(tmp_path)
    assert [one for one in lines if not one.is_within] == []


def test_killed_compactions_leave_the_table_as_it_was(tmp_path: Path) -> None:
    lines = many_results.killed(tmp_path, runs=600, seeds=(1, 2))
    assert [one for one in lines if not one.is_within] == []
