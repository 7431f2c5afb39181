"""Makes git repositories with a user's model."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
