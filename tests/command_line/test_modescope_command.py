"""The command `modescope`, which a wheel installs."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import modescope
from modescope import __main__ as command
from modescope.bench.records import paths
from tests.helpers.paths import ROOT


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of the user's; sys.argv and sys.path are restored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["modescope"])
    monkeypatch.setattr(sys, "path", list(sys.path))


def programs() -> set[str]:
    """What `python -m analysis.NAME` or `python -m bench.NAME` starts, for users."""
    files = [*(ROOT / "analysis").glob("*/__main__.py"), *(ROOT / "bench").glob("*/__main__.py")]
    of_files = {
        *("table", "trend", "why", "compact", "restat", "claims", "instructions", "selfcheck"),
        *("options", "stale", "watch"),
    }
    return {path.parent.name for path in files} | of_files


def test_every_program_is_a_command_that_help_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(command.COMMANDS) == {*programs(), "run"}
    assert all(callable(resolve_name(each.function)) for each in command.COMMANDS.values())
    for words in ([], ["--help"]):
        assert command.main(words) == 0
        printed = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in printed if line[:1] == " "] == list(command.COMMANDS)
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out == f"modescope {modescope.__version__}\n"


def test_run_takes_the_settings_of_run_py(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "mode=eager", "--cfg", "job", "--package", "mode"]) == 0
    assert "name: eager" in capsys.readouterr().out
    assert command.main(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert "modescope run experiment=modes" in out
    assert "python run.py" not in out


def test_commands_are_named_as_they_are_typed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.program("analysis.table", Path("my results")) == "modescope table 'my results'"
    assert (paths.program("analysis.table"), paths.runner()) == ("modescope table", "modescope run")
    monkeypatch.chdir(ROOT)
    assert paths.program("analysis.table") == "python -m analysis.table"
    assert paths.runner() == "python run.py"


def test_the_checkout_does_not_stay_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m modescope` puts the current folder there."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    before = sys.path.count(str(ROOT))
    command.main(["--version"])
    assert sys.path.count(str(ROOT)) == before - 1
