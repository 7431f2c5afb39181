"""What a side may name: interpreters, revisions, folders; and where a model must come from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modescope.bench.records.cases import Inference, Training
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from modescope.bench.versus import sides
from modescope.bench.versus.states import PROBE, CodeState, state
from tests.helpers.paths import ROOT
from tests.helpers.versus import Repository, repository


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = repository(tmp_path / "repo", ["width = 4", "width = 8"])
    monkeypatch.chdir(made.folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return made


def test_this_interpreter_is_one(stack: ExitStack) -> None:
    made = state("old", sys.executable, stack)
    assert (made.python, made.source, made.hidden) == (sys.executable, None, None)
    oldest = re.search(r'requires-python = ">=(\d+)\.(\d+)', (ROOT / "pyproject.toml").read_text())
    assert f"({oldest[1]}, {oldest[2]})" in PROBE


@pytest.mark.parametrize(
    "typed",
    ["", "nowhere/bin/python", "pyproject.toml", "/bin/false", "bare/python",
     "dir:nowhere", "dir:", "git:no-such-branch", "git:", "git:--all"],
)  # fmt: skip
def test_a_side_that_names_nothing(typed: str, stack: ExitStack, repo: Repository) -> None:
    """Or an interpreter without torch."""
    bare = repo.folder / "bare" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # -S: no site-packages
    bare.chmod(0o755)
    with pytest.raises(UsageError) as error:
        state("old", typed, stack)
    assert str(error.value).startswith(f"old={typed}: ")
    assert "\n" not in str(error.value)


def test_a_folder_is_searched_before_pythonpath(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/a:{tmp_path}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    made = state("new", "dir:mine", stack)
    assert made.search == (str(tmp_path / "mine"), "/a", str(tmp_path))
    assert made.source == str(tmp_path / "mine")


def test_a_revision_is_checked_out_and_leaves_nothing(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo.folder / "src").mkdir()
    (repo.folder / "untracked").mkdir()
    (repo.folder / "src" / "a.py").touch()
    (repo.folder / ".gitattributes").write_text("src export-ignore\n")
    commit = repo.commit()
    (repo.folder / "net.py").write_text("width = 16")
    status = repo.git("status", "--porcelain")
    monkeypatch.setenv("PYTHONPATH", f"src:/elsewhere:{repo.folder / 'untracked'}")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")  # as a hook sets it
    with ExitStack() as stack:
        made = state("old", "git:HEAD", stack)
        assert made.source is not None
        tree = Path(made.source)
        assert (tree / "net.py").read_text() == "width = 8"
        assert made.name == f"git:HEAD ({commit[:12]})"
        untracked = str(repo.folder / "untracked")
        assert made.search == (str(tree / "src"), "/elsewhere", untracked, str(tree))
        assert made.hidden == str(repo.folder)
    assert not tree.exists()
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert repo.git("status", "--porcelain") == status


def test_without_git(tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git is not installed"):
        state("old", "git:main", stack)


# Where a model comes from


@pytest.mark.parametrize(
    ("imports", "hidden", "right"),
    [
        ("/mine/net.py /other/parts.py", None, True),
        ("/other/net.py", None, False),
        ("", None, False),  # of an installed package, or of modescope
        ("/mine/net.py /other/parts.py", "/repo", True),
        ("/mine/net.py /repo/parts.py", "/repo", False),
    ],
)
def test_some_code_of_each_case_must_be_of_the_state(
    imports: str, hidden: str | None, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's, or that of the user's loss."""
    asked: list[tuple[str, ...]] = []

    def call(task: Task[Any], targets: tuple[str, ...], **options: Any) -> ChildOutcome[Any]:
        asked.append(targets)
        return ChildOutcome(Ending.RETURNED, imports.split() if targets[1] else ["/mine/net.py"])

    monkeypatch.setattr(isolation, "call", call)
    jobs: Any = [
        SimpleNamespace(
            case=SimpleNamespace(model=SimpleNamespace(target="net:build"), options=options),
            plan=SimpleNamespace(timeout_s=1),
        )
        for options in (Inference(), Training(loss="net:loss"))
    ]
    sides._check_sources(CodeState("old", "python", "", "", ()), jobs)
    assert not asked
    with nullcontext() if right else pytest.raises(UsageError, match="net:build"):
        sides._check_sources(CodeState("old", "dir:/mine", "", "", (), "/mine", hidden), jobs)
    assert asked == [("net:build", ""), ("net:build", "net:loss")]
