"""The states in which a case may find the compiler's caches: the values of `compile_cache`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records import files

Variables = dict[str, str]
"""Environment variables of a child process that tell it where its compiler's caches are."""

SAVED = "MODESCOPE_BUILT"
"""Environment variable of the processes of a case of which one saves what others load: a folder
that they share, which is removed after the last of them."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Cache:
    """A state of the compiler's caches at a first call, and how it is brought about.

    `variables` opens the caches of one case: all its processes get what is yielded. Each function
    ("module:name") of `before` is called like `bench.case.runner:run`, with the case, the plan and
    the run id, in a process of its own before the process that measures. If it returns a Result
    with another status than CACHE_FILLED, there was nothing to prepare: that is the case's result.

    If a case counts starts, or the state `is_saved`, the caches are folders of the case alone. A
    new process fills one (`fills`): it makes a first call and then calls `save`. All others use
    that folder, or, if the state `ships`, an empty one of their own and what `save` wrote, which
    they `load` before their first call.
    """

    meaning: str  # in the documentation of the column `compile_cache`
    variables: Callable[[], AbstractContextManager[Variables]]
    before: tuple[str, ...] = ()
    starts_empty: bool = False  # whether the first call finds nothing of earlier runs
    compiles: bool = False  # whether the first call has to; if not, a miss spoils the state
    label: str = ""  # follows a result: `warm cache`; empty for the state that goes without saying
    fills: bool = True  # whether a process has to fill it
    is_saved: bool = False  # whether there is more to it than the files that the compiler leaves
    ships: bool = False  # whether processes that start get these files alone
    set_up: Callable[[], None] = _nothing  # in each process, before anything is compiled
    save: Callable[[], None] = _nothing  # after the first call of the process that fills it
    load: Callable[[], None] = _nothing
    makes_graphs: bool = True  # whether Dynamo does its work again in each process
    backend: str | None = None  # value of mode.compile that stands for the default in this state


def variables_of(folder: Path) -> Variables:
    """Returns the variables that make `folder` the compiler's caches."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }


@contextmanager
def empty() -> Iterator[Variables]:
    """Yields the variables of empty caches, which are removed after the block."""
    with files.temporary_folder() as folder:
        yield variables_of(folder)


def of_user() -> AbstractContextManager[Variables]:
    """Yields no variables: the caches are the user's."""
    return nullcontext({})


def _in_torch(name: str) -> Callable[[], None]:
    """Returns the function `name` of `bench.model.saved_caches`, which is imported at its call."""
    return lambda: pkgutil.resolve_name(f"modescope.bench.model.saved_caches:{name}")()


CACHES = {
    "cold": Cache(
        "empty before the first call", empty, starts_empty=True, compiles=True, fills=False
    ),
    "warm": Cache(
        "filled before this process",
        of_user,
        before=("modescope.bench.case.runner:fill",),
        label="warm cache",
    ),
    "shipped": Cache(
        "empty, and filled with what torch.compiler.save_cache_artifacts saved in another process",
        empty,
        label="shipped cache",
        is_saved=True,
        ships=True,
        save=_in_torch("save_bundle"),
        load=_in_torch("load_bundle"),
    ),
    "precompiled": Cache(
        "filled before this process, with Dynamo's work (TORCH_CACHING_PRECOMPILE=1)",
        empty,
        label="precompiled",
        is_saved=True,
        set_up=_in_torch("precompile"),
        save=_in_torch("save_functions"),
        makes_graphs=False,
    ),
    "aot": Cache(
        "empty, and the model is what aot_compile saved in another process",
        empty,
        label="aot_compile",
        is_saved=True,
        ships=True,
        makes_graphs=False,
        backend="aot",
    ),
}
