"""Files: where modescope's own lie and how to start it, and whether others are the user's."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of bench/, models/, analysis/ and conf/: a checkout, or site-packages/modescope."""

CONF = ROOT / "conf"


def program(module: str, *words: object) -> str:
    """The command that starts a module, such as analysis.table, with these arguments.

    In a checkout `python -m analysis.table`, elsewhere `modescope table`.
    """
    start = ("python", "-m", module) if _in_checkout() else ("modescope", module.rpartition(".")[2])
    return shlex.join([*start, *map(str, words)])


def runner() -> str:
    """The command that measures: `python run.py` where it was typed, and in a checkout.

    Elsewhere `modescope run`.
    """
    typed = Path(sys.argv[0]).resolve() == ROOT / "run.py"
    return "python run.py" if typed or _in_checkout() else "modescope run"


def _in_checkout() -> bool:
    return Path.cwd() == ROOT


_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
"""Of this environment, and of the Python that it was made with, whose packages it may share."""

_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def is_of_python(file: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return file.startswith(_PYTHON) and not _PACKAGE.search(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return is_of_python(file) or _PACKAGE.search(file) is not None
