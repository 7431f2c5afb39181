"""Where modescope's files are, how its programs are started, and whose file a file is."""

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
    """The command that starts `module`, such as analysis.table, with the arguments `words`.

    In a checkout it is `python -m analysis.table`, elsewhere `modescope table`.
    """
    start = ("python", "-m", module) if _in_checkout() else ("modescope", module.rpartition(".")[2])
    return shlex.join([*start, *map(str, words)])


def runner() -> str:
    """The command that measures.

    `python run.py` in a checkout, and where it was typed so; `modescope run` elsewhere.
    """
    typed = Path(sys.argv[0]).resolve() == ROOT / "run.py"
    return "python run.py" if typed or _in_checkout() else "modescope run"


def _in_checkout() -> bool:
    return Path.cwd() == ROOT


_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
"""Matches the path of an installed package: of this environment, or of the Python below it."""

_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def is_of_python(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return file.startswith(_PYTHON) and not _PACKAGE.search(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return is_of_python(file) or _PACKAGE.search(file) is not None
