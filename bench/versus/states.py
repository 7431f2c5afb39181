"""What is measured on a side: an interpreter with its packages, a revision, or a folder.

A new kind is a line of KINDS. Both sides are measured by this checkout of modescope.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import REVISION
from modescope.bench.versus import interpreters, revisions


@dataclass(frozen=True)
class State:
    """How the process of a side is started, and what it may import."""

    side: str  # old | new
    typed: str
    name: str  # as it is recorded: as typed, and of a revision the commit
    python: Path
    search: tuple[str, ...]  # PYTHONPATH
    source: Path | None = None  # folder that must hold the user's model; None: anywhere
    hidden: Path | None = None  # folder that nothing of the user's may come from
    note: str | None = None  # what the user may not expect

    def __str__(self) -> str:
        """`old=git:main`."""
        return f"{self.side}={self.typed}"

    def is_recorded_as(self, name: str | None) -> bool:
        """Whether a row that records `name` may be of this state.

        An environment does not say which other packages an interpreter has, so its path must be
        equal, like that of a folder. Two commits may have the same files, and rows are reused only
        where the source of the model is the same (`sweep.resume`), so any revision is accepted.
        """
        if name is None:
            return False
        both_revisions = self.name.startswith(REVISION) and name.startswith(REVISION)
        return both_revisions or name == self.name


def state(side: str, typed: str, stack: ExitStack) -> State:
    """What `side=typed` names; `stack` removes what is made for it.

    Raises UsageError where there is no such interpreter, revision or folder.
    """
    for prefix, make in KINDS.items():
        if typed.startswith(prefix):
            return make(side, typed, typed.removeprefix(prefix), stack)
    return _interpreter(side, typed)


def _interpreter(side: str, typed: str) -> State:
    given = Path(typed).expanduser()
    found = shutil.which(typed) if os.sep not in typed else str(given)
    path = Path(found).absolute() if found else given  # a link of a virtual environment stays one
    if path.is_dir():
        raise UsageError(
            f"{side}={typed} is a folder; name its interpreter ({typed.rstrip('/')}/bin/python), "
            f"or measure the code in it with {side}=dir:{typed}"
        )
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UsageError(
            f"{side}={typed}: no such interpreter; name the path of one, as in "
            f"{side}=~/venv/bin/python, a revision ({side}=git:main) or a folder ({side}=dir:PATH)"
        )
    if wrong := interpreters.problem(path):
        raise UsageError(f"{side}={typed} {wrong}")
    return State(side, typed, typed, path, revisions.search_path())


def _folder(side: str, typed: str, rest: str, stack: ExitStack) -> State:
    path = Path(rest).expanduser().absolute()
    if not rest or not path.is_dir():
        raise UsageError(
            f"{side}={typed}: there is no such folder; name the one that holds your package"
        )
    search = (str(path), *revisions.search_path())
    return State(side, typed, typed, Path(sys.executable), search, source=path)


def _revision(side: str, typed: str, rest: str, stack: ExitStack) -> State:
    try:
        found = revisions.find(rest)
        tree = stack.enter_context(revisions.worktree(found))
    except UsageError as error:
        raise UsageError(f"{side}={typed}: {error}") from None
    name = f"{typed} ({found.commit[:12]})"
    search = revisions.moved(found.top, tree)
    return State(
        side, typed, name, Path(sys.executable), search, tree, found.top, revisions.note(found)
    )


KINDS: dict[str, Callable[[str, str, str, ExitStack], State]] = {
    REVISION: _revision,
    "dir:": _folder,
}
"""Prefixes of a side, and what makes its state. Anything else is the path of an interpreter."""
