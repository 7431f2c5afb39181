"""The exception for mistakes of the user."""

from __future__ import annotations


class UsageError(Exception):
    """The request is invalid or cannot be fulfilled; the message says what to do instead."""
