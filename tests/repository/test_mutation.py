"""`make mutants` on a repository of two functions, of which only one is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation import examine, faults

SOURCE = """
def less(a: int, b: int) -> int:
    return a - max(b, 0)


def small(low: float) -> bool:  # naïve
    return low < 1
"""
TEST = "from bench.stats.sums import less\n\ndef test_less():\n    assert less(5, 2) == 3\n"


@pytest.mark.full
def test_a_fault_is_killed_where_a_test_looks(tmp_path: Path) -> None:
    for folder in ("bench/stats", "tests/bench/stats"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    (tmp_path / "bench/stats/sums.py").write_text(SOURCE)
    (tmp_path / "tests/bench/stats/test_sums.py").write_text(TEST)
    outcomes = examine(tmp_path, faults(tmp_path, ["bench/stats"]))
    told = {one.change(SOURCE.encode())[-1][1:].strip(): end for one, end in outcomes.items()}
    seen = "tests/bench/stats/test_sums.py"
    assert told == {
        "return (a + max(b, 0))": seen,
        "return a - (min)(b, 0)": seen,
        "return a - max(b, (1))": None,
        "return None": None,  # of the function that is not tested
        "return (low <= 1)": None,
        "return low < (2)": None,
    }
    assert (tmp_path / "bench/stats/sums.py").read_text() == SOURCE
