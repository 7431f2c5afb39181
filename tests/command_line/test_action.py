"""The steps of action.yml, run by the shell as GitHub would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.helpers.paths import ROOT
from tests.helpers.repositories import repository
from tests.helpers.versus import NEW, OLD, THEIRS, of_sides

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, VERSUS = ACTION["runs"]["steps"]


def run(step: dict[str, str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def test_torch_is_installed_unless_it_is_there(tmp_path: Path) -> None:
    given = {"PYTHON": "echo", "GITHUB_ACTION_PATH": "/modescope"}
    with_torch = run(INSTALL, tmp_path, TORCH="torch --index-url URL", **given).stdout
    assert with_torch == "-m pip install torch --index-url URL\n-m pip install /modescope\n"
    assert run(INSTALL, tmp_path, TORCH="", **given).stdout == "-m pip install /modescope\n"


def test_every_variable_of_a_step_is_an_input() -> None:
    for step in (INSTALL, VERSUS):
        names = [value.split("inputs.")[1].rstrip(" }") for value in step["env"].values()]
        assert {*names} <= ACTION["inputs"].keys()


@pytest.mark.full
def test_the_gate_compares_the_last_two_commits(tmp_path: Path) -> None:
    code = repository(tmp_path / "code", [OLD, NEW])
    defaults = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
    done = run(
        VERSUS,
        code.folder,
        PYTHON=sys.executable,
        PYTHONPATH=str(ROOT),
        OLD=defaults["old"],
        NEW=defaults["new"],
        OPTIONS="--gate exact",
        SETTINGS=" ".join(["-m", "mode=eager", *THEIRS]),
    )
    assert done.returncode == 0, done
    old, new = of_sides(code.folder)
    assert [row["versus_state"] for row in (*old, *new)] == [
        f"git:HEAD^1 ({code.commits[0][:12]})", f"git:HEAD ({code.commits[1][:12]})"
    ]  # fmt: skip
    assert {"modescope.md", "modescope.xml"} <= {file.name for file in code.folder.iterdir()}
