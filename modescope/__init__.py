"""modescope: which PyTorch execution mode to run a model in, on the machine at hand, and why.

In a checkout, bench/, models/, analysis/ and conf/ lie beside this folder instead of inside it, and
are imported under the same names, such as `modescope.bench.timing`.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent

if not (_FOLDER / "bench").is_dir():
    __path__.append(str(_FOLDER.parent))
