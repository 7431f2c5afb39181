"""The exception for mistakes of the user."""

from __future__ import annotations


class UsageError(Exception):
    """The request is invalid or cannot be fulfilled; the message says what to do instead."""


def os_error_text(error: OSError) -> str:
    """The file and the system's message about it."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
