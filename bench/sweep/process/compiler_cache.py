"""The compiler's disk caches for one case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from modescope.bench.records import leftovers


@contextmanager
def of(temperature: str) -> Iterator[dict[str, str]]:
    """Environment variables of a run: `cold` names empty caches, which are removed afterwards."""
    if temperature == "warm":
        yield {}
        return
    with leftovers.scratch() as folder:
        yield {
            "TORCHINDUCTOR_CACHE_DIR": str(folder),
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }
