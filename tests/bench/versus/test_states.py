"""What a side may name: interpreters, revisions, folders; and where a model must come from."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from modescope.bench.records import leftovers
from modescope.bench.records.errors import UsageError
from modescope.bench.versus import interpreters, revisions, sources
from modescope.bench.versus.states import State, state
from modescope.bench.versus.worker import Origin
from tests.helpers.commands import Ask
from tests.helpers.paths import ROOT
from tests.helpers.repositories import Repository, repository

ANSWER = """#!/bin/sh
printf '%s\\n' '{answer}'
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = repository(tmp_path / "repo", ["width = 4", "width = 8"])
    monkeypatch.chdir(made.folder)
    return made


Python = Callable[[str], Path]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """A stand-in for an interpreter, which answers the probe."""

    def make(answer: str) -> Path:
        path = tmp_path / "python"
        path.write_text(ANSWER.format(answer=answer))
        path.chmod(0o755)
        return path

    return make


# Interpreters

HAS_ALL = '"torch": "2.13.0+cpu", "hydra-core": "1.3.8", "numpy": "2.3.1", "pyarrow": "22.0.0"'


def test_this_interpreter_is_one(stack: ExitStack) -> None:
    made = state("old", sys.executable, stack)
    assert made.python == Path(sys.executable)
    assert (made.source, made.hidden) == (None, None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (f"[[3, 12], {{{HAS_ALL}}}]", None),
        ("[[2, 7], {}]", "is Python 2.7, and modescope needs 3.11 to 3.13"),
        ("[[3, 14], {}]", "is Python 3.14"),
        ("[[3, 11], {}]", "has no torch and no hydra-core and no numpy and no pyarrow; install"),
        (f"[[3, 11], {{{HAS_ALL.replace('2.13.0', '2.9.1')}}}]",
         "has torch 2.9.1+cpu, which is older than 2.11"),
        (f"[[3, 11], {{{HAS_ALL.replace('2.13.0+cpu', '2.11.0a0+git123')}}}]", None),
        ("something else", "is no Python interpreter"),
    ],
)  # fmt: skip
def test_what_an_interpreter_lacks_is_named(
    answer: str, message: str | None, python: Python
) -> None:
    problem = interpreters.problem(python(answer))
    assert (problem is None) if message is None else problem.startswith(message)


def test_the_advice_installs_what_is_missing(python: Python) -> None:
    path = python(f"[[3, 11], {{{HAS_ALL.replace('2.3.1', '1.26.4')}}}]")
    assert interpreters.problem(path).endswith(f"{path} -m pip install 'numpy>=2'")


def test_what_an_interpreter_needs_is_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(project["dependencies"]), re.M))
    assert {name: needed[name] for name in interpreters.NEEDED} == interpreters.NEEDED
    limits = [tuple(map(int, each.split("."))) for each in
              re.findall(r"3\.\d+", project["requires-python"])]  # fmt: skip
    assert (limits[0], (3, limits[1][1] - 1)) == interpreters.PYTHONS


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("nowhere/bin/python", "no such interpreter; name the path of one"),
        ("no-such-python", "no such interpreter"),
        ("gti:main", "no such interpreter"),
        ("pyproject.toml", "no such interpreter"),  # cannot be executed
        ("/bin", "old=/bin is a folder; name its interpreter (/bin/bin/python)"),
        ("/bin/false", "old=/bin/false is no Python interpreter"),
        ("dir:nowhere", "old=dir:nowhere: there is no such folder"),
        ("dir:", "old=dir:: there is no such folder"),
        ("git:no-such-branch", "git knows no such revision in"),
        ("git:", "git knows no such revision in"),
        ("git:--all", "git knows no such revision in"),
    ],
)
def test_a_side_that_names_nothing(
    typed: str, message: str, stack: ExitStack, repo: Repository
) -> None:
    with pytest.raises(UsageError) as error:
        state("old", typed, stack)
    assert message in str(error.value)


# Folders


def test_a_folder_is_searched_before_pythonpath(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/a:{tmp_path}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    made = state("new", "dir:mine", stack)
    assert made.search == (str(tmp_path / "mine"), "/a", str(tmp_path))
    assert made.source == tmp_path / "mine"


# Revisions


def test_a_revision_is_checked_out_and_removed(repo: Repository) -> None:
    with ExitStack() as stack:
        made = state("old", "git:HEAD~1", stack)
        assert (made.source / "net.py").read_text() == "width = 4"
        assert made.search == (str(made.source),)
        assert made.name == f"git:HEAD~1 ({repo.commits[0][:12]})"
        assert made.note is None
    assert not made.source.exists()
    assert repo.worktrees() == [str(repo.folder)]


def test_folders_of_the_repository_are_searched_in_the_revision(
    repo: Repository, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo.folder / "src").mkdir()
    (repo.folder / "untracked").mkdir()
    (repo.folder / "src" / "a.py").touch()
    repo.commit()
    monkeypatch.setenv("PYTHONPATH", f"src:/elsewhere:{repo.folder / 'untracked'}")
    made = state("old", "git:HEAD", stack)
    tree = made.source
    assert made.search == (
        *(str(tree / "src"), "/elsewhere", str(repo.folder / "untracked"), str(tree)),
    )


def test_hooks_of_the_repository_are_not_run(repo: Repository, stack: ExitStack) -> None:
    hook = repo.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repo.folder}/ran\n")
    hook.chmod(0o755)
    state("old", "git:HEAD", stack)
    assert not (repo.folder / "ran").exists()


def test_variables_of_a_hook_do_not_choose_another_repository(
    repo: Repository, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert (state("old", "git:HEAD", stack).source / "net.py").read_text() == "width = 8"


def test_changes_that_are_not_committed_are_named(repo: Repository, stack: ExitStack) -> None:
    (repo.folder / "net.py").write_text("width = 16")
    assert "not committed" in state("new", "git:HEAD", stack).note
    assert state("old", "git:HEAD~1", stack).note is None


def test_what_a_killed_versus_left_is_removed(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True).stdout.strip()  # fmt: skip
    owner = leftovers.owner().rpartition("-")[0]
    folder = tmp_path / f"{leftovers.PREFIX}{owner}-{gone}-x"
    folder.mkdir()
    repo.git("worktree", "add", "--detach", str(folder / "tree"), "HEAD")
    with revisions.worktree(revisions.find("HEAD")):
        assert not folder.exists()
        assert len(repo.worktrees()) == 2  # the repository and the new one
    assert repo.worktrees() == [str(repo.folder)]


def test_outside_of_a_repository(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match=r"old=git:main: .* is in no git repository; start in"):
        state("old", "git:main", stack)


def test_without_git(tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git is not installed; name a folder"):
        state("old", "git:main", stack)


def test_a_shallow_clone_is_named_as_the_reason(
    repo: Repository, tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"file://{repo.folder}"
    subprocess.run(["git", "clone", "-q", "--depth=1", source, str(tmp_path / "clone")], check=True)
    monkeypatch.chdir(tmp_path / "clone")
    with pytest.raises(UsageError, match="only a part of the history: run git fetch --unshallow"):
        state("old", "git:HEAD~1", stack)


# Where a model comes from


def of_folder(folder: Path, hidden: Path | None = None) -> State:
    return State("old", "git:main" if hidden else "dir:x", "", Path(), (), folder, hidden)


TARGET = ("model.target", "net:build")


def origin(file: Path, *others: Path) -> Origin:
    return Origin(*TARGET, str(file), tuple(map(str, others)))


def test_a_model_of_another_folder_is_refused(tmp_path: Path) -> None:
    here, elsewhere = of_folder(tmp_path / "here"), tmp_path / "elsewhere" / "net.py"
    sources.check(here, [(TARGET,)], [origin(tmp_path / "here" / "net.py", elsewhere)])
    with pytest.raises(UsageError) as error:
        sources.check(here, [(TARGET,)], [origin(elsewhere)])
    assert f"old=dir:x: model.target=net:build is imported from {elsewhere}" in str(error.value)


def test_a_loss_of_the_folder_is_enough(tmp_path: Path) -> None:
    loss = Origin("model.loss", "mine:loss", str(tmp_path / "here" / "mine.py"), ())
    functions = (TARGET, (loss.key, loss.target))
    sources.check(of_folder(tmp_path / "here"), [functions], [origin(tmp_path / "net.py"), loss])


def test_each_model_must_be_of_the_folder(tmp_path: Path) -> None:
    """Another one would be the same code on both sides."""
    here, elsewhere = of_folder(tmp_path / "here"), tmp_path / "elsewhere" / "theirs.py"
    theirs = Origin("model.target", "theirs:build", str(elsewhere), ())
    cases = [(TARGET,), ((theirs.key, theirs.target),)]
    with pytest.raises(UsageError) as error:
        sources.check(here, cases, [origin(tmp_path / "here" / "net.py"), theirs])
    assert f"model.target=theirs:build is imported from {elsewhere}" in str(error.value)


@pytest.mark.full
def test_the_functions_of_each_case_are_read_from_its_settings(ask: Ask) -> None:
    arguments = ("-m", "model=custom", "model.target=mine:build,theirs:build", "mode=eager,no_grad")
    cases = sources.of_user(ask(*arguments))
    assert cases == [(("model.target", f"{name}:build"),) for name in ("mine", "theirs")]
    assert sources.distinct([*cases, (*cases[0], ("model.loss", "mine:loss"))]) == [
        *(("model.target", f"{name}:build") for name in ("mine", "theirs")),
        ("model.loss", "mine:loss"),
    ]


def test_no_file_of_the_working_tree_is_measured_as_a_revision(tmp_path: Path) -> None:
    tree, repo = tmp_path / "tree", tmp_path / "repo"
    known = of_folder(tree, repo)
    sources.check(known, [(TARGET,)], [origin(tree / "net.py", tmp_path / "other.py")])
    with pytest.raises(UsageError, match=r"imports .*repo/parts.py of the working tree"):
        sources.check(known, [(TARGET,)], [origin(tree / "net.py", repo / "parts.py")])


def test_an_interpreter_may_import_from_anywhere(tmp_path: Path) -> None:
    sources.check(State("old", "python", "", Path(), ()), [], [origin(tmp_path / "net.py")])


# What a row was measured as


@pytest.mark.parametrize(
    ("name", "recorded", "same"),
    [
        ("/a/python", "/a/python", True),
        ("/a/python", "/b/python", False),
        ("/a/python", None, False),
        ("dir:a", "dir:a", True),
        ("dir:a", "dir:b", False),
        ("dir:a", "/a/python", False),
        ("git:main (0123)", "git:HEAD~1 (4567)", True),  # whose model has the same source
        ("git:main (0123)", "/a/python", False),
        ("/a/python", "git:main (0123)", False),
    ],
)
def test_what_a_state_is_recorded_as(name: str, recorded: str | None, same: bool) -> None:
    assert State("old", name, name, Path(), ()).is_recorded_as(recorded) is same
