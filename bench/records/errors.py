"""UsageError, exit by signals, progress reports of child processes, and one-line error texts."""

from __future__ import annotations

import io
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol


class UsageError(Exception):
    """The request is invalid or cannot be fulfilled. The message says what to do instead."""


def os_error_text(error: OSError) -> str:
    """Returns `file: message` for an error of the system; without a file only the message."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def terminate(number: int, frame: object) -> NoReturn:
    """Handles a signal (SIGTERM): raises KeyboardInterrupt, so that a sweep ends as by Ctrl-C.

    `number`: the signal's number, which `exit_status` reads from the exception.
    """
    raise KeyboardInterrupt(number)


def exit_status(stop: KeyboardInterrupt) -> int:
    """Returns the exit status after Ctrl-C or `terminate`: 128 + the signal's number."""
    return 128 + int(stop.args[0] if stop.args else signal.SIGINT)


class Progress(Protocol):
    """A function with which a child process tells its parent what it is doing."""

    def __call__(self, phase: str, keep: object = None) -> None:
        """Reports that `phase` begins.

        If the child dies in it, `keep` counts as its result; None: it has no result then.
        """


def replace_unprintable() -> None:
    """Makes stdout print `?` for a character that it cannot encode, instead of raising."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # unlike in a notebook
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def note_place(place: str) -> Iterator[None]:
    """Adds a note `place`, such as `call 9`, to an error that the block raises."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise


_OF_A_SIZE = re.compile(r"size mismatch|\.size\(\)\[|\.shape\[")


def is_of_a_size(reason: str) -> bool:
    """Whether torch's reason for compiling again is that a tensor has another size."""
    return _OF_A_SIZE.search(reason) is not None


def one_line(error: BaseException, limit: int = 300) -> str:
    """Returns `Type: message` of `error` in about `limit` characters.

    The notes that `note_place` added come first.
    """
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return with_place(shorten(text, limit), error)


def with_place(text: str, error: BaseException) -> str:
    """Returns `text` after the notes of `error`, which `note_place` added: `call 9, seq=277: text`.

    Without notes it is `text`.
    """
    return ": ".join((*getattr(error, "__notes__", ()), text))


def shorten(text: str, limit: int) -> str:
    """Returns `text` on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
