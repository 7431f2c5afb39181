"""Where modescope's own files lie, and the commands that start it from the current folder."""

import shlex
import sys
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
