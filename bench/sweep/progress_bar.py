"""How much of a sweep is measured: a bar on a terminal or in a notebook, elsewhere lines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

from tqdm import tqdm

_wanted: ContextVar[bool | None] = ContextVar("wanted", default=None)
"""Whether progress is shown, also in a notebook; None: not asked, so only on a terminal."""


def progress_bar(total: int, unit: str) -> tqdm[NoReturn]:
    """A bar on stderr that is removed at its end; disabled where stderr is no terminal."""
    wanted = _wanted.get()
    make = _bar_class() if wanted else partial(tqdm, disable=wanted is False or None)
    bar: tqdm[NoReturn] = make(total=total, unit=unit, leave=False)
    return bar


def describe(bar: tqdm[NoReturn], label: str) -> Callable[[str], None]:
    """Shows what is measured and the phase that it enters."""
    return lambda phase: bar.set_description(f"{label}: {phase}")


def advance(bar: tqdm[NoReturn], number: int, finished: str) -> None:
    """Moves the bar by one; where none can be shown, prints a line about what has finished.

    `number`: of what has finished, from 1, as a disabled bar does not count.
    """
    bar.update()
    if bar.disable and bar.total != 1 and _wanted.get() is not False:
        print(f"{number}/{bar.total}  {finished}", file=sys.stderr, flush=True)


@contextmanager
def show(wanted: bool) -> Iterator[None]:
    """Progress within is shown, also as a bar in a notebook; or, unless `wanted`, not at all."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def _bar_class() -> Any:
    """A notebook's stderr is no terminal, which the bar of a terminal would ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tqdm, where ipywidgets are missing
        from tqdm import autonotebook
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return partial(autonotebook.tqdm, disable=False if hasattr(shell, "kernel") else None)
