"""What rules are fed with: observations that a test made up, and worlds in which others are made.

Each chapter has a file here, named in `test_rules.MADE_UP`, with `EXAMPLES` (a claim's id -> the
answer -> observations that must lead to it) and `WORLDS` (a claim's id -> changes). Every claim
needs an observation that makes it hold, where figures that must have a fixed value may be left
out. `test_rules` derives from it those that such a figure alone turns; the others stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from modescope.bench.tools.claims.rules import Expected, enabling, limiting, refuting
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    WITHIN_LIMITS,
    Verdict,
)

ANSWER_OF: dict[Any, str] = {refuting: REFUTED, limiting: WITHIN_LIMITS, enabling: UNDECIDED}
"""The answer where a figure is not as expected, by its step."""

Examples = Mapping[str, Mapping[str, Sequence[Any]]]


def variants(base: Mapping[str, Any], **changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`base`, by which a claim holds, and it with changes, by the answer that they lead to."""
    every = {HOLDS: [{}, *changes.pop(HOLDS, [])], **changes}
    return {answer: [{**base, **each} for each in some] for answer, some in every.items()}


def as_expected(id: str) -> dict[str, Any]:
    """The values of a claim's figures that have to be just these."""
    expected = {n: e for n, e in CLAIMS[id].figures.items() if isinstance(e, Expected)}
    return {
        name: each.ok
        for name, each in expected.items()
        if each.step in ANSWER_OF and not callable(each.ok)
    }


def decide(id: str, observed: Mapping[str, Any]) -> Verdict:
    """The verdict on an observation that was made up."""
    claim = CLAIMS[id]
    return claim.decide(claim.made_up({**as_expected(id), **observed}))


@dataclass(frozen=True)
class World:
    """A change to torch under which a claim's experiment must come to `answer`."""

    what: str
    answer: str
    plant: Callable[[pytest.MonkeyPatch], None]


Worlds = Mapping[str, Sequence[World]]


def replaced(owner: object, name: str, by: object) -> Callable[[pytest.MonkeyPatch], None]:
    """Plants `by` in the place of an attribute."""
    return lambda patch: patch.setattr(owner, name, by)
