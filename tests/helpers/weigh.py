"""Counts the lines and files of each room, and their change since a revision.

`make weigh ARGS=main` prints them.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath

from tests.helpers.paths import ROOT

PRODUCT = ("bench", "analysis", "models", "modescope")
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's name of the tree without files


def weights(*revision: str) -> tuple[Counter[str], Counter[str]]:
    """Numbers of files and of lines in each room, at a revision or as they are now."""
    paths = [f"{top}/*.py" for top in (*PRODUCT, "tests")]
    command = ["git", "diff", "--no-renames", "--numstat", EMPTY, *revision, "--", *paths]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    files, lines = Counter[str](), Counter[str]()
    for added, _, path in (line.split("\t") for line in told.splitlines()):
        room = "/".join(PurePosixPath(path).parent.parts[:2])
        for name in (room, "all tests" if room.startswith("tests") else "all of the product"):
            files[name] += 1
            lines[name] += int(added)
    return files, lines


if __name__ == "__main__":
    (files, lines), (once, before) = weights(), weights(sys.argv[1] if sys.argv[1:] else "HEAD")
    for room in sorted({*lines, *before}):
        more, grown = files[room] - once[room], lines[room] - before[room]
        print(f"{room:24} {files[room]:6} files {lines[room]:7} lines {more:+7} {grown:+8}")
