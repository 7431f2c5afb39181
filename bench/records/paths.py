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


def program(module: str, *words: object) -> str:
    """Returns the command that starts `module`, such as analysis.table, with arguments `words`.

    In a checkout it is `python -m analysis.table`, elsewhere `modescope table`.
    """
    start = ("python", "-m", module) if _in_checkout() else ("modescope", module.rpartition(".")[2])
    return shlex.join([*start, *map(str, words)])


def runner() -> str:
    """Returns the command that measures, as the user would type it.

    It is `python run.py` in a checkout or if run.py was started, else `modescope run`.
    """
    typed = Path(sys.argv[0]).resolve() == ROOT / "run.py"
    return "python run.py" if typed or _in_checkout() else "modescope run"


def _in_checkout() -> bool:
    return Path.cwd() == ROOT


_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
"""Matches the path of a file in an installed package."""

_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def is_of_python(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return file.startswith(_PYTHON) and not _PACKAGE.search(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return is_of_python(file) or _PACKAGE.search(file) is not None
