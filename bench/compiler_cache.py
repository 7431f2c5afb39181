"""Which caches on disk the compiler of a case finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench import leftovers


@contextmanager
def of(temperature: str) -> Iterator[dict[str, str]]:
    """Environment variables of a run: `cold` has empty caches of its own, gone afterwards."""
    if temperature == "warm":
        yield {}
        return
    with leftovers.scratch() as folder:
        yield {
            "TORCHINDUCTOR_CACHE_DIR": str(folder),
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }
