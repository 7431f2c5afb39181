"""`make mutants` on a repository of two functions, of which only one is tested."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests import mutation
from tests.mutation import Fault, examine, faults, stages, summary

SOURCE = '''
"""Two functions."""

LIMIT = 3


def less(a: int, b: int = 1 - 1) -> int:
    return a - max(b, 0)


def within(low: float, high: float) -> bool:
    # naïve
    return low < 1 and fits(high, 2.0, strict=True)
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    for folder in ("bench/stats", "tests/bench/stats", "tests/seams"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bench/stats/sums.py").write_text(SOURCE)
    (tmp_path / "tests/bench/stats/test_sums.py").write_text(
        "from bench.stats.sums import less\n\ndef test_less():\n    assert less(5, 2) == 3\n"
    )
    return tmp_path


def of_line(root: Path, number: int) -> dict[str, Fault]:
    """The faults of a line, by the line that each leaves."""
    source = (root / "bench/stats/sums.py").read_bytes()
    told = [(each.lines(source), each) for each in faults(root, ["bench/stats"])]
    return {after: each for (line, _, after), each in told if line == number}


def test_the_faults_of_a_file(root: Path) -> None:
    assert set(of_line(root, 8)) == {
        "return (a + max(b, 0))",
        "return None",
        "return a - (min)(b, 0)",
        "return a - max(b, (1))",
    }
    assert set(of_line(root, 13)) == {
        "return None",
        "return (low < 1 or fits(high, 2.0, strict=True))",
        "return (low <= 1) and fits(high, 2.0, strict=True)",
        "return (high) < 1 and fits(high, 2.0, strict=True)",
        "return low < (2) and fits(high, 2.0, strict=True)",
        "return low < 1 and (fits(high, 2.0))",
        "return low < 1 and (fits(2.0, high, strict=True))",
        "return low < 1 and fits((low), 2.0, strict=True)",
        "return low < 1 and fits(high, (4.0), strict=True)",
        "return low < 1 and fits(high, 2.0, strict=(False))",
    }
    assert not of_line(root, 4), "a constant of a module is no fault of its code"


@pytest.mark.full
def test_a_fault_is_killed_where_a_test_looks(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (root / "bench/stats/sums.py").read_bytes()
    seen = of_line(root, 8)["return (a + max(b, 0))"]
    unseen = of_line(root, 13)["return low < (2) and fits(high, 2.0, strict=True)"]
    outcomes = examine(root, [seen, unseen])
    assert outcomes == {seen: "tests/bench/stats/test_sums.py", unseen: None}
    assert (root / "bench/stats/sums.py").read_bytes() == before
    assert "bench/stats/sums.py:13: SURVIVES" in capsys.readouterr().out
    assert [line.split() for line in summary(outcomes, ["bench/stats"])] == [
        [name, "1", "of", "2", "killed", "(1%", "to", "99%)"] for name in ("bench/stats", "all")
    ]


def test_without_a_mirror_the_room_and_the_seams_are_run(root: Path) -> None:
    assert stages(root, "bench/stats/sums.py")[0] == ["tests/bench/stats/test_sums.py"]
    assert stages(root, "bench/stats/others.py") == [["tests/bench/stats", "tests/seams"]]


@pytest.mark.full
def test_tests_that_fail_without_a_fault_prove_nothing(root: Path) -> None:
    (root / "bench/stats/sums.py").write_text(SOURCE.replace("a - max", "a * max"))
    with pytest.raises(ValueError, match="fail without a fault"):
        examine(root, faults(root, ["bench/stats"])[:1])


@pytest.mark.full
def test_faults_of_the_rooms_are_code() -> None:
    """Of those that can be drawn, some are planted: each changes the code, and can be parsed."""
    every = faults(mutation.ROOT, mutation.ROOMS)
    for fault in random.Random(0).sample(every, 100):
        source = (mutation.ROOT / fault.file).read_bytes()
        changed = source[: fault.begin] + fault.new.encode() + source[fault.end :]
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), fault
