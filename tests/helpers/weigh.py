"""Lines and files of each room, and their change since a revision: `make weigh ARGS=main`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from tests.helpers.paths import ROOT

PRODUCT = ("bench", "analysis", "models", "modescope")


def room(path: str) -> str:
    """The folder of a folder, as in bench/timing; bench/ for the files that lie in none."""
    return "/".join(PurePosixPath(path).parts[:-1][:2]) + ("/" if path.count("/") == 1 else "")


def git(*words: str) -> list[str]:
    """The lines that git prints about Python files of the product and of the tests."""
    command = ["git", *words, "--", *(f"{top}/*.py" for top in (*PRODUCT, "tests"))]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def weigh(revision: str) -> list[str]:
    """A line for each room, then for product and tests."""
    files, lines, more_files, more_lines = (Counter[str]() for _ in range(4))
    for path in git("ls-files"):
        if (ROOT / path).exists():
            files[room(path)] += 1
            lines[room(path)] += len((ROOT / path).read_text(encoding="utf-8").splitlines())
    for change in git("diff", "--no-renames", "--numstat", revision):
        added, removed, path = change.split("\t")
        more_lines[room(path)] += int(added) - int(removed)
    for change in git("diff", "--no-renames", "--name-status", "--diff-filter=AD", revision):
        kind, path = change.split("\t")
        more_files[room(path)] += 1 if kind == "A" else -1
    rooms = sorted(files.keys() | more_lines.keys())
    tests = [each for each in rooms if each.startswith("tests")]
    product = [each for each in rooms if each not in tests]
    groups = {**{each: [each] for each in rooms}, "product": product, "tests": tests}

    def total(count: Counter[str], name: str) -> int:
        return sum(count[each] for each in groups[name])

    return [
        f"{name:24} {total(files, name):6} files {total(lines, name):7} lines "
        f"{total(more_files, name):+7} {total(more_lines, name):+8}"
        for name in groups
    ]


def main(words: Sequence[str]) -> int:
    """Exit status: 0, or 2 for an unknown revision."""
    revision = words[0] if words else "HEAD"
    try:
        print("\n".join(weigh(revision)))
    except subprocess.CalledProcessError as error:
        print(f"error: {error.stderr.strip().splitlines()[0]}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
