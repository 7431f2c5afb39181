"""How a case ended, and how its results were checked: the values of the columns of that name.

Files hold their plain text, and so does a row that was read from one: compare with `==`.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How the measuring of a case ended; the column `status`."""

    OK = "ok"
    SKIPPED = "skipped"  # the device or the model lacks what it needs
    FAILED = "failed"
    WRONG_RESULT = "wrong_result"
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    CACHE_FILLED = "cache_filled"
    """Of a process that only prepared what the next one uses: the compiler's cache, or code that is
    built ahead of time. No row has this status."""


class Checked(StrEnum):
    """How the results of a case were checked; the column `checked`."""

    EXACT = "exact"
    WITHOUT_RANDOMNESS = "without_randomness"
    NOT = "not"
