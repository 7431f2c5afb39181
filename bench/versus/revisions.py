"""Revisions of the git repository of the current folder, each checked out in a temporary folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records import leftovers
from modescope.bench.records.errors import UsageError

_PLACES = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}
"""Variables that a hook sets; they would name another repository or index than the folder does."""


@dataclass(frozen=True)
class Revision:
    """A commit, and the top folder of its repository's working tree."""

    top: Path
    commit: str


def find(name: str) -> Revision:
    """The commit that `name` names in the repository of the current folder, or UsageError."""
    top = _git(Path.cwd(), "rev-parse", "--show-toplevel")
    if not top:
        raise UsageError(
            f"{Path.cwd()} is in no git repository; start in the folder of your model, or name a "
            "folder as dir:PATH"
        )
    commit = None
    if name and not name.startswith("-"):
        commit = _git(Path(top), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if not commit:
        raise UsageError(f"git knows no such revision in {top}{_advice(Path(top))}")
    return Revision(Path(top), commit)


def _advice(top: Path) -> str:
    if _git(top, "rev-parse", "--is-shallow-repository") == "true":
        return (
            ", which holds only a part of the history: run git fetch --unshallow (on GitHub: "
            "fetch-depth: 0)"
        )
    return "; name a branch, a tag or a commit"


@contextmanager
def worktree(revision: Revision) -> Iterator[Path]:
    """A folder with the files of the revision; removed afterwards, hooks are not run."""
    _forget_abandoned(revision.top)
    with leftovers.scratch() as folder:
        tree = folder / "tree"
        add = ("-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach")
        done = _run(revision.top, *add, str(tree), revision.commit)
        if done.returncode:
            raise UsageError(f"git cannot check it out ({' '.join(done.stderr.split())})")
        try:
            yield tree
        finally:
            _git(revision.top, "worktree", "remove", "--force", str(tree))


def _forget_abandoned(top: Path) -> None:
    """Removes git's notes on worktrees of killed processes, whose folders are gone."""
    ours = f"{Path(tempfile.gettempdir()).resolve()}{os.sep}{leftovers.PREFIX}"
    leftovers.clear()
    for line in (_git(top, "worktree", "list", "--porcelain") or "").splitlines():
        path = line.removeprefix("worktree ")
        if path != line and path.startswith(ours) and not Path(path).exists():
            _git(top, "worktree", "remove", "--force", path)


def note(revision: Revision) -> str | None:
    """A sentence if it is the commit that is checked out, and tracked files differ from it."""
    head = _git(revision.top, "rev-parse", "HEAD")
    if head != revision.commit or not _git(
        revision.top, "status", "--porcelain", "--untracked-files=no"
    ):
        return None
    return "changes that are not committed are not measured; dir:. measures them"


def search_path() -> tuple[str, ...]:
    """The folders of PYTHONPATH, absolute."""
    folders = os.environ.get("PYTHONPATH", "")
    return tuple(str(Path(each).absolute()) for each in folders.split(os.pathsep) if folders)


def moved(top: Path, tree: Path) -> tuple[str, ...]:
    """PYTHONPATH and the current folder, each in `tree` where that has it in place of `top`."""
    every = [path.resolve() for path in (*map(Path, search_path()), Path.cwd())]
    return tuple(str(_in_tree(path, top, tree) or path) for path in every)


def _in_tree(path: Path, top: Path, tree: Path) -> Path | None:
    """The same folder in `tree`; None for one outside of `top`, or that no commit holds."""
    moved_path = tree / path.relative_to(top) if path.is_relative_to(top) else None
    return moved_path if moved_path and moved_path.is_dir() else None


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails."""
    done = _run(folder, *arguments)
    return None if done.returncode else done.stdout.strip()


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name not in _PLACES}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], env=variables, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise UsageError("git is not installed; name a folder as dir:PATH") from None
