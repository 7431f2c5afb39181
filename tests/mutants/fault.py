"""What a planted fault is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`old`, which occurs exactly once in the file at `path`, becomes `new`."""

    what: str  # in plain words
    path: str
    old: str
    new: str
    tests: tuple[str, ...]  # test files or single tests; few and fast, as each fault runs them
