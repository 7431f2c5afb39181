"""What processes say: a child to its parent, and commands to a terminal that may lack letters."""

from __future__ import annotations

import io
import sys
from typing import Protocol


class Progress(Protocol):
    """Reports to the parent what its child is doing."""

    def __call__(self, phase: str, keep: object = None) -> None:
        """Enters a phase; the parent gets `keep` as the result if the child dies in that phase."""


def replace_unprintable() -> None:
    """Lets this process print `?` for what stdout cannot encode, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # unlike in a notebook
        sys.stdout.reconfigure(errors="replace")


def one_line(error: BaseException, limit: int = 300) -> str:
    """`Type: message` on one line, for the reason of a record."""
    message = " ".join(str(error).split())
    return shortened(
        f"{type(error).__name__}: {message}" if message else type(error).__name__, limit
    )


def shortened(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
