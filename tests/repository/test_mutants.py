"""The table of planted faults is up to date, and the runner counts killed faults correctly."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.mutants import __main__ as mutants
from tests.mutants import planting
from tests.mutants.fault import Fault
from tests.mutants.faults import FAULTS
from tests.mutants.planting import copy_repository, plant, stale

NAMED = sorted({test for fault in FAULTS for test in fault.tests})


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_each_fault_fits_one_place_and_changes_it(fault: Fault) -> None:
    assert stale(fault, ROOT) is None
    changed = (ROOT / fault.path).read_text(encoding="utf-8").replace(fault.old, fault.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse((ROOT / fault.path).read_text()))


def test_every_fault_has_a_unique_name_and_names_its_tests() -> None:
    names = [fault.what for fault in FAULTS]
    assert len(set(names)) == len(names) >= 24
    assert all(fault.tests for fault in FAULTS)


@pytest.mark.parametrize("named", NAMED)
def test_the_tests_a_fault_names_exist(named: str) -> None:
    path, _, test = named.partition("[")[0].partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert test in functions if test else any(name.startswith("test_") for name in functions)


FAULT = Fault("plus for minus", "bench/sums.py", "a - b", "a + b", ("tests/test_sums.py",))
TEST = "from bench.sums import less\n\ndef test_less():\n    assert less(5, {}) == {}\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A repository of one function and one test, which finds the fault."""
    for folder in ("bench", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    (tmp_path / "bench/__init__.py").touch()
    (tmp_path / "bench/sums.py").write_text("def less(a, b):\n    return a - b\n")
    (tmp_path / "tests/test_sums.py").write_text(TEST.format(2, 3))
    return tmp_path


def test_a_fault_is_killed_where_a_test_fails(sources: Path) -> None:
    outcome = mutants.try_fault(FAULT, sources)
    assert outcome.killed
    assert outcome.line.startswith(
        "plus for minus (bench/sums.py): killed by tests/test_sums.py::test_less, "
    )
    assert mutants.control([FAULT], sources) is None
    assert "a - b" in (sources / "bench/sums.py").read_text()


@pytest.mark.parametrize(
    ("test", "told"),
    [
        (TEST.format(0, 5), "SURVIVED"),
        ("import no_such_module\n", "NOT TESTED, pytest ended with status 2"),
        ("", "NOT TESTED, pytest ended with status 5"),
    ],
    ids=["passes", "cannot be collected", "no test"],
)
def test_an_error_other_than_a_failed_test_kills_nothing(
    test: str, told: str, sources: Path
) -> None:
    (sources / "tests/test_sums.py").write_text(test)
    outcome = mutants.try_fault(FAULT, sources)
    assert not outcome.killed
    assert told in outcome.line


def test_a_hanging_test_kills_nothing(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "TIMEOUT_S", 2.0)
    (sources / "tests/test_sums.py").write_text("import time\n\ntime.sleep(600)\n")
    outcome = mutants.try_fault(FAULT, sources)
    assert not outcome.killed
    assert "TIMEOUT after 2 s" in outcome.line


def test_the_control_run_reports_tests_that_fail_without_a_fault_or_do_not_exist(
    sources: Path,
) -> None:
    gone = replace(FAULT, tests=("tests/test_sums.py::test_gone",))
    assert "ended with status 4" in str(mutants.control([gone], sources))
    (sources / "tests/test_sums.py").write_text(TEST.format(2, 7))
    assert "ended with status 1" in str(mutants.control([FAULT], sources))


@pytest.mark.parametrize(("old", "found"), [("a * b", 0), ("a", 2)])
def test_a_fault_whose_text_is_gone_is_an_error_with_its_name(
    old: str, found: int, sources: Path
) -> None:
    with pytest.raises(ValueError, match=f"'plus for minus' replaces .* occurs {found} times"):
        plant(replace(FAULT, old=old), sources)
    with pytest.raises(ValueError, match=r"bench/gone\.py, which does not exist"):
        plant(replace(FAULT, path="bench/gone.py"), sources)


def test_the_last_line_counts_killed_faults(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unseen = replace(FAULT, what="another sum", old="less(a, b)", new="less(a, b, c=0)")
    monkeypatch.setattr(mutants, "FAULTS", (FAULT, unseen))
    monkeypatch.setattr(planting, "ROOT", sources)
    assert mutants.main(["--only", "minus"]) == 0
    assert capsys.readouterr().out.endswith("\n1 of 1 killed\n")
    assert mutants.main([]) == 1
    assert capsys.readouterr().out.endswith("\n1 of 2 killed\n")
    monkeypatch.setattr(mutants, "FAULTS", (replace(FAULT, old="a * b"),))
    assert mutants.main([]) == 1
    assert "bring its entry in tests/mutants/ up to date" in capsys.readouterr().err


@pytest.mark.parametrize("with_git", [True, False])
def test_edits_and_new_files_are_copied_and_ignored_ones_are_not(
    with_git: bool, sources: Path, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ignored = "ignored.log" if with_git else "bench/__pycache__/ignored.pyc"
    (sources / ".gitignore").write_text("*.log\n*.pyc\n")
    if with_git:
        for command in (["init", "--quiet"], ["add", "bench"]):
            subprocess.run(["git", *command], cwd=sources, check=True)
    (sources / ignored).parent.mkdir(exist_ok=True)
    (sources / ignored).touch()
    (sources / "bench/sums.py").write_text("edited = True\n")
    monkeypatch.setattr(planting, "ROOT", sources)
    target = tmp_path_factory.mktemp("copied")
    copy_repository(target)
    assert (target / "bench/sums.py").read_text() == "edited = True\n"
    assert (target / "tests/test_sums.py").is_file()  # new
    assert not (target / ignored).exists()
