"""Where modescope's files are, which commands start its programs, and which files are Python's."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that contains bench/, analysis/ and conf/: a checkout, or site-packages/modescope."""

CONF = ROOT / "conf"

COMMAND_NAMES = {"compare": "diff"}
"""Maps the last name of a program's module to its command, where they differ: `modescope.compare`,
in Python, compares modes and not studies."""


def program(module: str, *words: object) -> str:
    """Returns the command that starts `module`, such as analysis.table, with arguments `words`.

    It has the form in which this process was started: `modescope table`, but `python -m
    analysis.table` after `python run.py` and the like.
    """
    last = module.rpartition(".")[2]
    named = ("modescope", COMMAND_NAMES.get(last, last))
    return shlex.join([*(("python", "-m", module) if _by_file() else named), *map(str, words)])


def runner() -> str:
    """Returns the command that measures, in the form in which this process was started."""
    return "python run.py" if _by_file() else "modescope run"


def _by_file() -> bool:
    """Whether `python run.py` or `python -m analysis.table` started this process, in a checkout."""
    started, run = Path(sys.argv[0]).resolve(), ROOT / "run.py"
    starts = (run, ROOT / "analysis", ROOT / "bench")
    return Path.cwd() == ROOT and run.is_file() and any(map(started.is_relative_to, starts))


_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
"""Matches the path of a file in an installed package."""

_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def is_of_python(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return file.startswith(_PYTHON) and not _PACKAGE.search(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return is_of_python(file) or _PACKAGE.search(file) is not None
