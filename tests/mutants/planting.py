"""Copies of the repository, and a fault planted in one of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.mutants.fault import Fault

WITHOUT_GIT = (
    "bench",
    "models",
    "analysis",
    "conf",
    "modescope",
    "tests",
    "docs",
    "results/README.md",
    "results/reference",
    "run.py",
    "pyproject.toml",
)


def copy_repository(target: Path) -> None:
    """Copies files that git would commit, with edits; without git, those that tests need."""
    for name in _committable() or _needed():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def _committable() -> list[Path]:
    """Tracked and new files relative to ROOT; none without git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return []
    names = {Path(name) for name in asked.stdout.split("\0") if name}
    if Path("pyproject.toml") not in names:  # no repository, or another one around ROOT
        return []
    return sorted(name for name in names if (ROOT / name).is_file())


def _needed() -> Iterator[Path]:
    for top in WITHOUT_GIT:
        found = [ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*")
        for path in found:
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT)


def stale(fault: Fault, root: Path) -> str | None:
    """Why `fault` cannot be planted in the sources at `root`, or None."""
    path = root / fault.path
    if not path.is_file():
        return f"'{fault.what}' belongs in {fault.path}, which does not exist"
    if (found := path.read_text(encoding="utf-8").count(fault.old)) == 1:
        return None
    return (
        f"'{fault.what}' replaces a text that must occur once in {fault.path} and occurs {found} "
        f"times: bring its entry in tests/mutants/ up to date ({fault.old.strip()!r})"
    )


def plant(fault: Fault, root: Path) -> None:
    """Changes the file; raises ValueError where the fault is stale."""
    if reason := stale(fault, root):
        raise ValueError(reason)
    path = root / fault.path
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
