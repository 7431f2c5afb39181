"""Mistakes of the user, and what processes say on one line: to their parent or to a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class UsageError(Exception):
    """The request is invalid or cannot be fulfilled; the message says what to do instead."""


def os_error_text(error: OSError) -> str:
    """The file and the system's message about it."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


class Progress(Protocol):
    """Reports to the parent what its child is doing."""

    def __call__(self, phase: str, keep: object = None) -> None:
        """Enters a phase; the parent gets `keep` as the result if the child dies in that phase."""


def replace_unprintable() -> None:
    """Lets this process print `?` for what stdout cannot encode, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # unlike in a notebook
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Adds to an error where it was raised, for `one_line`."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise


def one_line(error: BaseException, limit: int = 300) -> str:
    """`Type: message` on one line, for the reason of a record."""
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return with_place(shorten(text, limit), error)


def with_place(text: str, error: BaseException) -> str:
    """`text` about an error after the place that `naming` gave it: `call 9, seq=277: ...`."""
    return ": ".join((*getattr(error, "__notes__", ()), text))


def shorten(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
