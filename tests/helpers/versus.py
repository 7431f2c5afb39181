"""Runs `python -m bench.versus` in a git repository with a user's model."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.commands import QUICKLY, Row, Started, rows, start
from tests.helpers.paths import ROOT

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return {forward}

def build():
    return Net(), (torch.randn(2, 4),)
"""
OLD = NET.format(forward="self.linear(x)")
NEW = NET.format(forward="self.linear(x).relu().sin()")

START = "from modescope.bench.versus.__main__ import main; sys.exit(main(sys.argv[1:]))"

THEIRS = ("model=custom", "model.target=net:build", *QUICKLY)


def versus(folder: Path, *words: str, **variables: str) -> Started:
    """Starts the command in `folder`, by this checkout."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {START}"
    return start(["-P", "-c", code, *words], folder, **variables)


def of_sides(folder: Path) -> tuple[list[Row], list[Row]]:
    return rows(folder / "results", "main-old"), rows(folder / "results", "main-new")


_IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


@dataclass
class Repository:
    """A repository and its commits, oldest first."""

    folder: Path
    commits: list[str] = field(default_factory=list)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *_IDENTITY, *arguments],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "a change")
        self.commits.append(self.git("rev-parse", "HEAD"))
        return self.commits[-1]


def repository(folder: Path, contents: Sequence[str]) -> Repository:
    """Makes a repository in `folder`, with a commit for each content of its file net.py."""
    folder.mkdir(parents=True)
    made = Repository(folder)
    made.git("init", "-q", "-b", "main")
    for content in contents:
        (folder / "net.py").write_text(content)
        made.commit()
    return made
