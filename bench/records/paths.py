"""Where modescope's own files lie: in a checkout, and in site-packages/modescope once installed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of bench/, models/, analysis/ and conf/."""

CONF = ROOT / "conf"


def program(module: str) -> str:
    """The command that starts a module, such as analysis.table, from the current folder."""
    return f"python -m {module if Path.cwd() == ROOT else f'modescope.{module}'}"
