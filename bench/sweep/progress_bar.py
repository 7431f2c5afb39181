"""How much of a sweep is measured: a bar on a terminal or in a notebook, elsewhere lines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of tqdm, about notebooks
    from tqdm.autonotebook import tqdm

_shown = ContextVar("shown", default=True)


def progress_bar(total: int, unit: str) -> tqdm[NoReturn]:
    """A bar that is removed at its end; disabled if stderr is neither a terminal nor a notebook."""
    return tqdm(total=total, unit=unit, leave=False, disable=None if _shown.get() else True)


def describe(bar: tqdm[NoReturn], label: str) -> Callable[[str], None]:
    """Shows what is measured and the phase that it enters."""
    return lambda phase: bar.set_description(f"{label}: {phase}")


def advance(bar: tqdm[NoReturn], number: int, finished: str) -> None:
    """Moves the bar by one; where none can be shown, prints a line about what has finished.

    `number`: of what has finished, from 1, as a disabled bar does not count.
    """
    bar.update()
    if bar.disable and bar.total != 1 and _shown.get():
        print(f"{number}/{bar.total}  {finished}", file=sys.stderr, flush=True)


@contextmanager
def show(wanted: bool) -> Iterator[None]:
    """Progress within is shown, or not at all."""
    token = _shown.set(wanted)
    try:
        yield
    finally:
        _shown.reset(token)
