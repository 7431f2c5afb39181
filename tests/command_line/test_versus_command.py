"""`python -m bench.versus` with real processes; and action.yml, whose steps a shell runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.helpers.commands import QUICKLY
from tests.helpers.paths import ROOT
from tests.helpers.versus import NEW, OLD, THEIRS, of_sides, repository, versus


@pytest.mark.full
def test_another_interpreter_needs_no_modescope(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    ours = "\n".join(each for each in sys.path if each.endswith("site-packages"))
    (shared,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (shared / "shared.pth").write_text(ours)
    lacks = subprocess.run([python, "-c", "import modescope"], cwd=tmp_path, capture_output=True)
    assert lacks.returncode == 1
    words = (f"old={python}", f"new={sys.executable}", "--", "model=pointwise", "mode=eager")
    answer = versus(tmp_path, *words, "shape=small", *QUICKLY).end()
    assert (answer.status, len(answer.err.splitlines())) == (0, 2)
    (old,), (new,) = of_sides(tmp_path)
    assert (old["status"], new["status"]) == ("ok", "ok")
    assert old["source_id"] == new["source_id"]


# The steps of action.yml, as GitHub would run them

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
    for step in (INSTALL, VERSUS):
        names = [value.split("inputs.")[1].rstrip(" }") for value in step["env"].values()]
        assert {*names} <= ACTION["inputs"].keys()
    given = {"PYTHON": "echo", "GITHUB_ACTION_PATH": "/modescope"}
    with_torch = run(INSTALL, tmp_path, TORCH="torch --index-url URL", **given).stdout
    assert with_torch == "-m pip install torch --index-url URL\n-m pip install /modescope\n"
    assert run(INSTALL, tmp_path, TORCH="", **given).stdout == "-m pip install /modescope\n"


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
