"""What rules are fed with: observations that a test made up, and worlds in which others are made.

Each chapter has a file here, named in `test_rules.MADE_UP`, with `EXAMPLES` (a claim's id -> the
answer -> observations that must lead to it) and `WORLDS`. Every claim needs an observation that
makes it hold and one that refutes it; a test says which are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

Examples = Mapping[str, Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class World:
    """A change to torch under which a claim's experiment must come to `answer`."""

    claim: str
    what: str
    answer: str
    plant: Callable[[pytest.MonkeyPatch], None]
