"""Where modescope's own files lie, and the commands that start it from the current folder."""

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of bench/, models/, analysis/ and conf/: a checkout, or site-packages/modescope."""

CONF = ROOT / "conf"


def program(module: str) -> str:
    """The command that starts a module, such as analysis.table.

    In a checkout `python -m analysis.table`, elsewhere `modescope table`.
    """
    return f"python -m {module}" if _in_checkout() else f"modescope {module.rpartition('.')[2]}"


def runner() -> str:
    """The command that measures: `python run.py` in a checkout, elsewhere `modescope run`.

    Where run.py was started by its path, that path.
    """
    if _in_checkout():
        return "python run.py"
    typed = Path(sys.argv[0]).resolve() == ROOT / "run.py"
    return f"python {shlex.quote(sys.argv[0])}" if typed else "modescope run"


def _in_checkout() -> bool:
    return Path.cwd() == ROOT
