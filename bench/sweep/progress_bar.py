"""Shows how much of a sweep is measured: by a bar on a terminal or in a notebook, else by lines."""

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
    """Returns a progress bar that vanishes at its end; disabled without terminal or notebook."""
    return tqdm(total=total, unit=unit, leave=False, disable=None if _shown.get() else True)


def describe(bar: tqdm[NoReturn], label: str) -> Callable[[str], None]:
    """Returns a function that takes the name of a phase, and shows it after `label` in the bar."""
    return lambda phase: bar.set_description(f"{label}: {phase}")


def advance(bar: tqdm[NoReturn], number: int, finished: str) -> None:
    """Moves the bar by one. If no bar is shown, prints `number`, the total and `finished`.

    `number` counts what has finished, from 1, because a disabled bar does not count.
    """
    bar.update()
    if bar.disable and bar.total != 1 and _shown.get():
        print(f"{number}/{bar.total}  {finished}", file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Prints a line on stderr at once, where progress is shown."""
    if _shown.get():
        print(line, file=sys.stderr, flush=True)


@contextmanager
def show(wanted: bool) -> Iterator[None]:
    """Shows progress in the block only if it is `wanted`."""
    token = _shown.set(wanted)
    try:
        yield
    finally:
        _shown.reset(token)
