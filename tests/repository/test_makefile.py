"""Each environment of the Makefile is made in its own folder, once, with the requested torch.

A stand-in for Python makes environments, and records its arguments, also as their `pip`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from modescope.bench.sweep import fingerprint
from tests.helpers.paths import ROOT

OLDEST = ".".join(map(str, fingerprint.OLDEST))
PINNED = re.search("^torch==.*", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]

PYTHON = """#!/bin/sh
test "$1" = -c && exit 0
echo "$0 $*" >>{log}
test "$2" = venv || exit 0
for folder; do :; done
mkdir -p "$folder/bin"
cp "$0" "$folder/bin/pip"
cp "$0" "$folder/bin/python"
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

Make = Callable[..., list[str]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Runs make in a folder with no environment in it; returns the calls of pip and python."""
    log, python, project = (tmp_path / name for name in ("log", "python", "project"))
    project.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, project)
    python.write_text(PYTHON.format(log=log))
    python.chmod(0o755)
    # without the variables that `make test` sets for its tests
    of_make = ("MAKE", "MFLAGS", "TORCH")
    clean = {name: text for name, text in os.environ.items() if not name.startswith(of_make)}

    def call(*words: str) -> list[str]:
        log.write_text("")
        command = ["make", *words, f"PYTHON={python}", "CXX=sh"]
        subprocess.run(command, cwd=project, env=clean, check=True, capture_output=True)
        return [line for line in log.read_text().splitlines() if line.startswith(".venv")]

    return call


def test_each_environment_is_made_once_in_its_own_folder(make: Make, tmp_path: Path) -> None:
    for target, folder, asked in (
        ("test", ".venv", PINNED),
        ("test-newest", ".venv-newest", "--upgrade torch"),
        ("test-oldest", ".venv-oldest", f"torch=={OLDEST}.*"),
    ):
        install, *rest = make(target, "ARGS=-k this")
        rule = f"-e .[dev] -c {folder}/constraints.txt"
        assert install == f"{folder}/bin/pip install --disable-pip-version-check {asked} {rule}"
        assert {line.split()[0] for line in rest} == {f"{folder}/bin/python"}
        assert rest[-1].endswith("-k this")
        assert "\ntorch==" not in (tmp_path / "project" / folder / "constraints.txt").read_text()
        assert make(target, "ARGS=-k this") == rest, "it is there already"
        (tmp_path / "project" / folder / "ready").unlink()
        assert "pip install" in make(target)[0], "an interrupted installation is repeated"


def test_the_torch_setting_changes_only_the_main_environment(make: Make) -> None:
    other = "TORCH=torch==2.12.1"
    assert " torch==2.12.1 " in make("test", other)[0]
    assert not any("pip" in line for line in make("test")), "it is remembered"
    assert " --upgrade torch " in make("test-newest", other)[0]
    assert f" {PINNED} " in make("venv", "TORCH=")[0]
