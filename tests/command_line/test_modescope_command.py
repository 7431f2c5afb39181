"""The command `modescope`, which a wheel installs."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name

import pytest

import modescope
from modescope import __main__ as command
from modescope.bench.mistakes import GROUPS
from modescope.bench.records import paths
from modescope.bench.settings import SCHEMAS
from tests.helpers.paths import ROOT


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of the user's; sys.argv and sys.path are restored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["modescope"])
    monkeypatch.setattr(sys, "path", list(sys.path))


def programs() -> set[str]:
    """The commands of what `python -m analysis.NAME` or `python -m bench.NAME` starts."""
    files = [*(ROOT / "analysis").glob("*/__main__.py"), *(ROOT / "bench").glob("*/__main__.py")]
    of_files = {
        *("table", "trend", "why", "compact", "restat", "claims", "instructions", "selfcheck"),
        *("options", "stale", "watch"),
    }
    names = {path.parent.name for path in files} | of_files
    return {paths.COMMAND_NAMES.get(name, name) for name in names}


def test_every_program_is_a_command_that_help_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(command.COMMANDS) == {*programs(), "run"}
    assert all(callable(resolve_name(each.function)) for each in command.COMMANDS.values())
    for words in ([], ["--help"], ["help"]):
        assert command.main(words) == 0
        printed = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in printed if line[:1] == " "] == list(command.COMMANDS)
    assert command.main(["--version"]) == 0
    assert command.main(["run", "--version"]) == 0
    assert capsys.readouterr().out == f"modescope {modescope.__version__}\n" * 2


def test_run_takes_the_settings_of_run_py(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "mode=eager", "--cfg", "job", "--package", "mode"]) == 0
    assert "name: eager" in capsys.readouterr().out
    outputs = []
    for words in (["run", "help"], ["help", "run"], ["run", "--help"]):
        assert command.main(words) == 0
        outputs.append(capsys.readouterr().out)
    out = outputs[0]
    assert outputs == [out] * 3
    assert "modescope run experiment=modes" in out
    assert "python run.py" not in out


@pytest.mark.parametrize("name", ["report", "table", "why", "trend", "compact", "restat", "diff"])
def test_help_names_the_command_as_it_is_typed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        command.main([name, "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert f"modescope {name} " in out
    assert "python -m analysis" not in out


@pytest.mark.parametrize("started", ["run.py", "analysis/table.py", "bench/versus/__main__.py"])
def test_commands_are_named_as_the_process_was_started(
    monkeypatch: pytest.MonkeyPatch, started: str
) -> None:
    assert paths.program("analysis.table", Path("my results")) == "modescope table 'my results'"
    assert (paths.program("analysis.compare"), paths.runner()) == (
        "modescope diff",
        "modescope run",
    )
    monkeypatch.setattr(sys, "argv", [str(ROOT / started)])
    assert paths.runner() == "modescope run"  # python run.py does not run in this folder
    monkeypatch.chdir(ROOT)
    assert paths.program("analysis.compare") == "python -m analysis.compare"
    assert paths.runner() == "python run.py"
    monkeypatch.setattr(sys, "argv", [str(ROOT / "modescope" / "__main__.py")])
    assert (paths.program("analysis.table"), paths.runner()) == ("modescope table", "modescope run")


def test_the_help_of_run_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "--help"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert {"model=mlp", "mode=compile", "budget=standard"} <= {*out.split()}
    words = [line.split() for line in lines if re.match(r"(    )?\w", line)]
    listed = {key: values for key, *values in words}
    options = {f"{group}:" for group in GROUPS}
    for section in ("", "baseline", "train"):
        for field in fields(SCHEMAS[section]):
            key = f"{section}.{field.name}".lstrip(".")
            assert {key, f"{key}:", f"{key}.*"} & {*listed}, f"{key} is not in conf/config.yaml"
    assert options <= {*listed}
    assert {"shape.*", "model.target", "model.kwargs.*", "model.name"} <= {*listed}
    assert listed["order"][:2] == ["random,", "given"]
    assert listed["replicates"][:3] == ["1,", "from", "1"]
    assert listed["dry_run"][:2] == ["false,", "true"]
    assert listed["train.optimizer"][:2] == ["sgd,", "adamw"]


def test_the_checkout_does_not_stay_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m modescope` puts the current folder there."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    before = sys.path.count(str(ROOT))
    command.main(["--version"])
    assert sys.path.count(str(ROOT)) == before - 1
