"""Finds what a side of `bench.versus` measures: an interpreter, a git revision, or a folder.

Both sides are measured by this modescope.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records import files
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import REVISION

FOLDER = "dir:"
"""Prefix of a state that is a folder."""

PROBE = """
import sys
from importlib.metadata import version
assert sys.version_info >= (3, 11), sys.version
for name in ("torch", "hydra-core", "numpy", "pyarrow"):
    version(name)
"""
"""A program that fails in an interpreter that cannot run the process of a side. modescope itself
need not be installed there."""


@dataclass(frozen=True)
class CodeState:
    """How the process of a side is started, and what it may import.

    Folders are strings, because Python 3.12 cannot unpickle a Path of Python 3.13.
    """

    side: str  # old | new
    typed: str  # the state as the user typed it
    name: str  # value of the column `versus_state`: as typed, with the commit of a revision
    python: str  # path of the interpreter
    search: tuple[str, ...]  # folders of PYTHONPATH
    source: str | None = None  # folder that must hold the user's model; None: anywhere
    hidden: str | None = None  # working tree of a revision; nothing may be imported from there

    def __str__(self) -> str:
        """The state as on the command line: `old=git:main`."""
        return f"{self.side}={self.typed}"


def state(side: str, typed: str, stack: ExitStack) -> CodeState:
    """Returns the state that the argument `side=typed` names.

    Temporary files of the state are removed when `stack` closes. Raises UsageError if there is no
    such interpreter, revision or folder.
    """
    try:
        if typed.startswith(REVISION):
            return _revision(side, typed, stack)
        return _folder(side, typed) if typed.startswith(FOLDER) else _interpreter(side, typed)
    except UsageError as error:
        raise UsageError(f"{side}={typed}: {error}") from None


def _interpreter(side: str, typed: str) -> CodeState:
    found = shutil.which(os.path.expanduser(typed))
    if found is None:
        raise UsageError(
            f"no such interpreter; allowed: the path of one ({side}=~/venv/bin/python), "
            f"a revision ({side}=git:main), a folder ({side}=dir:PATH)"
        )
    python = os.path.abspath(found)  # a link of a virtual environment stays one
    done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, cwd="/")
    if done.returncode:
        why = (done.stderr.splitlines() or ["it is no Python"])[-1]
        raise UsageError(f"not a Python 3.11 or newer with torch and what modescope needs ({why})")
    return CodeState(side, typed, typed, python, _python_path())


def _folder(side: str, typed: str) -> CodeState:
    rest = typed.removeprefix(FOLDER)
    path = Path(rest).expanduser().resolve()
    if not rest or not path.is_dir():
        raise UsageError("no such folder; name the one that holds your package")
    search = (str(path), *_python_path())
    return CodeState(side, typed, typed, sys.executable, search, source=str(path))


def _revision(side: str, typed: str, stack: ExitStack) -> CodeState:
    """Writes the files of a git revision to a temporary folder; returns the state.

    git uses a temporary index for that, so the user's repository does not change.
    """
    folder = stack.enter_context(files.temporary_folder()).resolve()
    tree = folder / "tree"
    index = {"GIT_INDEX_FILE": str(folder / "index")}
    revision = f"{typed.removeprefix(REVISION)}^{{commit}}"
    try:
        top = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel"))
        commit = _git(top, "rev-parse", "--verify", "--quiet", revision)
        _git(top, "read-tree", commit, **index)
        _git(top, "checkout-index", "--all", f"--prefix={tree}/", **index)
    except UsageError as error:
        raise UsageError(
            f"{error}; name a branch, tag or commit of the repository in which you are "
            "(in a shallow clone first: git fetch --unshallow)"
        ) from None
    search = tuple(_move(path, top, tree) for path in (*_python_path(), os.getcwd()))
    name = f"{typed} ({commit[:12]})"
    return CodeState(side, typed, name, sys.executable, search, str(tree), str(top))


def _move(folder: str, top: Path, tree: Path) -> str:
    """Replaces `top` by `tree` in the path `folder` if `tree` has that folder."""
    path = Path(folder).resolve()
    there = tree / path.relative_to(top) if path.is_relative_to(top) else path
    return str(there if there.is_dir() else path)


def _python_path() -> tuple[str, ...]:
    folders = os.environ.get("PYTHONPATH", "")
    return tuple(os.path.abspath(folder) for folder in folders.split(os.pathsep) if folders)


def _git(folder: Path, *words: str, **variables: str) -> str:
    if shutil.which("git") is None:
        raise UsageError("git is not installed")
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        capture_output=True, text=True, env={**os.environ, **variables},
    )  # fmt: skip
    if done.returncode:
        raise UsageError((done.stderr.splitlines() or ["git knows no such revision"])[-1])
    return done.stdout.strip()
