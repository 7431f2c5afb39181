"""What a child process reports to its parent: the phase it enters, and an error in one line."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Reports to the parent what its child is doing."""

    def __call__(self, phase: str, keep: object = None) -> None:
        """Enters a phase; the parent gets `keep` as the result if the child dies in that phase."""


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
