"""Each environment of the Makefile is made in its own folder, once, with the requested torch.

A stand-in for Python makes environments whose `pip` and `python` record their arguments.
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
from tests.helpers import weigh
from tests.helpers.paths import ROOT

OLDEST = ".".join(map(str, fingerprint.OLDEST))
PINNED = re.search("^torch==.*", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
LISTED = ("Makefile", "pyproject.toml", "constraints.txt")

TOOL = """#!/bin/sh
printf '%s\\n' "$0 $*" >>{log}
"""
PYTHON = """#!/bin/sh
test "$1" = -c && exit 0
for folder; do :; done
mkdir -p "$folder/bin"
cp {tool} "$folder/bin/pip"
cp {tool} "$folder/bin/python"
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

Make = Callable[..., list[str]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Runs make in a folder with no environment in it; returns the calls of pip and python."""
    log, tool, python = (tmp_path / name for name in ("log", "tool", "python"))
    project = tmp_path / "project"
    project.mkdir()
    for name in LISTED:
        shutil.copy(ROOT / name, project)
    for file, text in ((tool, TOOL.format(log=log)), (python, PYTHON.format(tool=tool))):
        file.write_text(text)
        file.chmod(0o755)

    def call(*words: str) -> list[str]:
        log.write_text("")
        command = ["make", *words, f"PYTHON={python}", "CXX=sh"]
        subprocess.run(command, cwd=project, env=_clean(), check=True, capture_output=True)
        return log.read_text().splitlines()

    return call


def _clean() -> dict[str, str]:
    """The environment without the variables that `make test` sets for its tests."""
    of_make = ("MAKE", "MFLAGS", "TORCH")
    return {name: text for name, text in os.environ.items() if not name.startswith(of_make)}


def environments(folder: Path) -> dict[str, set[str]]:
    return {
        each.name: {file.relative_to(each).as_posix() for file in each.rglob("*") if file.is_file()}
        for each in (folder / "project").glob(".venv*")
    }


@pytest.mark.parametrize(
    ("target", "folder", "asked", "lane"),
    [
        ("test", ".venv", PINNED, ""),
        ("test-newest", ".venv-newest", "--upgrade torch", "-m  "),
        ("test-oldest", ".venv-oldest", f"torch=={OLDEST}.*", "-m  "),
    ],
)
def test_each_environment_has_its_own_folder(
    make: Make, tmp_path: Path, target: str, folder: str, asked: str, lane: str
) -> None:
    install, *rest = make(target, "ARGS=-k this")
    rule = f"-e .[dev] -c {folder}/constraints.txt"
    assert install == f"{folder}/bin/pip install --disable-pip-version-check {asked} {rule}"
    assert {line.split()[0] for line in rest} == {f"{folder}/bin/python"}
    chosen = "-n 2 --dist loadfile --no-loadscope-reorder"
    assert rest[-1] == f"{folder}/bin/python -m pytest -q {chosen} {lane}-k this"
    assert list(environments(tmp_path)) == [folder]
    constraints = (tmp_path / "project" / folder / "constraints.txt").read_text()
    assert "numpy==" in constraints
    assert "\ntorch==" not in constraints
    assert make(target, "ARGS=-k this") == rest, "it is there already"


def test_the_torch_setting_changes_only_the_main_environment(make: Make) -> None:
    other = "TORCH=torch==2.12.1"
    assert " torch==2.12.1 " in make("test", other)[0]
    assert not any("pip" in line for line in make("test")), "it is remembered"
    assert " --upgrade torch " in make("test-newest", other)[0]
    assert f" torch=={OLDEST}.* " in make("test-oldest")[0]
    assert not any("pip" in line for line in make("test", other)), "the others left it alone"
    assert f" {PINNED} " in make("venv", "TORCH=")[0]


def test_an_interrupted_installation_is_repeated(make: Make, tmp_path: Path) -> None:
    make("test-newest")
    (tmp_path / "project/.venv-newest/ready").unlink()
    assert "pip install" in make("test-newest")[0]


def test_the_extra_hf_shares_the_packages_of_the_main_environment(
    make: Make, tmp_path: Path
) -> None:
    make("venv")
    folder = tmp_path / "project" / ".venv-hf" / "bin"
    folder.mkdir(parents=True)
    for tool in ("pip", "python"):
        shutil.copy(tmp_path / "tool", folder)
        (folder / "tool").rename(folder / tool)
    share, install, shared, *system = make("test-full", "ARGS=-k this")
    assert share.startswith(".venv-hf/bin/python -c import sysconfig; ")
    rule = "install --disable-pip-version-check -e .[hf] -c .venv/constraints.txt"
    assert install == f".venv-hf/bin/pip {rule}"
    assert shared.startswith(".venv/bin/pip ")
    chosen = "-n 2 --dist loadfile --no-loadscope-reorder -m full -k this"
    tests = [
        f".venv-hf/bin/python -m pytest -q {chosen}",
        ".venv/bin/python -m pytest -q tests/system -m full -k this",
    ]
    assert system == tests
    assert make("test-full", "ARGS=-k this") == tests, "it is there already"


def test_git_ignores_every_environment() -> None:
    lines = (ROOT / ".gitignore").read_text().splitlines()
    assert {".venv/", ".venv-*/"} <= set(lines)


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (listed,) = [line for line in makefile.splitlines() if line.startswith(".PHONY: help")]
    done = subprocess.run(
        ["make", "help"], cwd=ROOT, env=_clean(), capture_output=True, text=True, check=True
    )
    shown = [line.split()[1] for line in done.stdout.splitlines()]
    assert sorted(shown) == sorted(listed.split()[1:])


def test_rooms_are_weighed_with_their_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(**files: str | None) -> None:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path = path.with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
        author = ("-c", "user.name=a", "-c", "user.email=a")
        for words in (["add", "-A"], [*author, "commit", "-qm", "x"]):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(weigh, "ROOT", tmp_path)
    commit(bench__a__one="1\n2\n3\n", bench__loose="1\n", tests__bench__test_one="1\n")
    commit(bench__a__one="1\n", bench__a__two="1\n2\n", tests__bench__test_one=None)
    shown = {line.split()[0]: line.split()[1:] for line in weigh.weigh("HEAD~1")}
    assert shown == {
        "bench/": ["1", "files", "1", "lines", "+0", "+0"],
        "bench/a": ["2", "files", "3", "lines", "+1", "+0"],
        "tests/bench": ["0", "files", "0", "lines", "-1", "-1"],
        "product": ["3", "files", "4", "lines", "+1", "+0"],
        "tests": ["0", "files", "0", "lines", "-1", "-1"],
    }
