"""The states in which a case may find the compiler's caches: the values of `compile_cache`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from modescope.bench.records import files

Variables = dict[str, str]
"""Environment variables of a child process that tell it where its compiler's caches are."""


@dataclass(frozen=True)
class Cache:
    """A state of the compiler's caches at a first call, and how it is brought about.

    `variables` opens the caches of one case: all its processes get what is yielded. Each function
    ("module:name") of `before` is called like `bench.case.runner:run`, with the case, the plan and
    the run id, in a process of its own before the process that measures. If it returns a Result
    with another status than CACHE_FILLED, there was nothing to prepare: that is the case's result.
    """

    meaning: str  # in the documentation of the column `compile_cache`
    variables: Callable[[], AbstractContextManager[Variables]]
    before: tuple[str, ...] = ()
    starts_empty: bool = False  # whether the first call finds nothing of earlier runs
    compiles: bool = False  # whether the first call has to; if not, a miss spoils the state
    label: str = ""  # follows a result: `warm cache`; empty for the state that goes without saying


@contextmanager
def empty() -> Iterator[Variables]:
    """Yields the variables of empty caches, which are removed after the block."""
    with files.temporary_folder() as folder:
        yield {
            "TORCHINDUCTOR_CACHE_DIR": str(folder),
            "TRITON_CACHE_DIR": str(folder / "triton"),
        }


def of_user() -> AbstractContextManager[Variables]:
    """Yields no variables: the caches are the user's."""
    return nullcontext({})


CACHES = {
    "cold": Cache("empty before the first call", empty, starts_empty=True, compiles=True),
    "warm": Cache(
        "filled before this process",
        of_user,
        before=("modescope.bench.case.runner:fill",),
        label="warm cache",
    ),
}
