"""Shows how much of a sweep is measured: a bar on a terminal or in a notebook, lines elsewhere."""

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
    """A function that shows in the bar `label` and the phase that it is called with."""
    return lambda phase: bar.set_description(f"{label}: {phase}")


def advance(bar: tqdm[NoReturn], number: int, finished: str) -> None:
    """Moves the bar by one. Where no bar is shown, prints a line such as `3/8  finished`.

    `number` counts what has finished, from 1, because a disabled bar does not count.
    """
    bar.update()
    if bar.disable and bar.total != 1 and _shown.get():
        print(f"{number}/{bar.total}  {finished}", file=sys.stderr, flush=True)


@contextmanager
def show(wanted: bool) -> Iterator[None]:
    """`wanted`: whether progress is shown at all in the block."""
    token = _shown.set(wanted)
    try:
        yield
    finally:
        _shown.reset(token)
