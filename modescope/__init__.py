"""modescope finds the execution mode in which PyTorch runs a model fastest, and says why.

In a checkout, bench/, models/, analysis/ and conf/ lie beside this folder instead of inside it, and
are imported under the same names, such as `modescope.bench.timing`.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modescope.bench.api.compare import Comparison, compare
    from modescope.bench.api.measure import Measured, measure
    from modescope.bench.api.suggesting import suggest
    from modescope.bench.api.watching import watch
    from modescope.bench.records.errors import UsageError

__all__ = ["Comparison", "Measured", "UsageError", "compare", "measure", "suggest", "watch"]
__version__ = "0.1.0"

_FOLDER = Path(__file__).resolve().parent

if not (_FOLDER / "bench").is_dir():
    __path__.append(str(_FOLDER.parent))

_PLACES = {
    "Comparison": "modescope.bench.api.compare",
    "Measured": "modescope.bench.api.measure",
    "UsageError": "modescope.bench.records.errors",
    "compare": "modescope.bench.api.compare",
    "measure": "modescope.bench.api.measure",
    "suggest": "modescope.bench.api.suggesting",
    "watch": "modescope.bench.api.watching",
}
"""Maps a public name to its module, which is imported on first use because torch takes seconds."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
