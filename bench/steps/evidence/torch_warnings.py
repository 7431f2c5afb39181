"""The warnings that torch prints or logs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import torch

from modescope.bench.records.errors import shortened

LONGEST = 200  # of a text
MOST = 5  # texts
FROM_CPP = "(Triggered internally at"
"""How a warning of torch's C++ code ends, whose place is that of the Python code that called it."""

_TORCH = Path(torch.__file__).parent


@contextmanager
def watch() -> Iterator[list[str]]:
    """Collects torch's warnings inside, each text once and shortened; they are shown as before.

    A warning counts that was shown before, except those that C++ code gives once per process.
    """
    found: list[str] = []

    def note(text: str) -> None:
        short = shortened(text.partition(FROM_CPP)[0], LONGEST)
        if short not in found and len(found) < MOST:
            found.append(short)

    with warnings.catch_warnings(), _logged(note):  # the former forgets what has been shown
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if FROM_CPP in str(message) or _TORCH in Path(filename).parents:
                note(str(message))
            show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield found


@contextmanager
def _logged(note: Callable[[str], None]) -> Iterator[None]:
    """Passes on what torch logs as a warning or worse.

    Reads records where they are made, because torch's loggers do not propagate them to others.
    """
    make = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.levelno >= logging.WARNING and record.name.partition(".")[0] == "torch":
            note(record.getMessage())
        return record

    logging.setLogRecordFactory(made)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
