"""The bar that shows how much of a sweep is measured, and what is being measured."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

from tqdm import tqdm

from modescope.bench.sweep.record_attempt import OnPhase

_BAR: ContextVar[Any] = ContextVar("bar", default=None)
"""What makes a bar; None: one on stderr, where that is a terminal."""


def progress_bar(total: int, unit: str) -> tqdm[NoReturn]:
    """A bar that is removed at its end."""
    make = _BAR.get() or partial(tqdm, disable=None)
    bar: tqdm[NoReturn] = make(total=total, unit=unit, leave=False)
    return bar


def named(bar: tqdm[NoReturn], label: str) -> OnPhase:
    """Shows what is measured and the phase that it enters."""
    return lambda phase: bar.set_description(f"{label}: {phase}")


@contextmanager
def shown(wanted: bool) -> Iterator[None]:
    """Bars within are shown in a terminal and in a notebook; or, unless `wanted`, not at all."""
    token = _BAR.set(_in_terminal_or_notebook() if wanted else partial(tqdm, disable=True))
    try:
        yield
    finally:
        _BAR.reset(token)


def _in_terminal_or_notebook() -> Any:
    """A notebook's stderr is no terminal, which the bar of a terminal would ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tqdm, where ipywidgets are missing
        from tqdm import autonotebook
    return partial(autonotebook.tqdm, disable=False if _in_notebook() else None)


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
