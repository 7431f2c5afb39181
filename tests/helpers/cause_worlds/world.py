"""`World`: a made-up study that has a cause; and functions that change its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.causes import Kernel

Change = Callable[[Sequence[Row]], Sequence[Row]]
"""A function that returns the derived rows of a world with something changed."""


@dataclass(frozen=True)
class World:
    """A study whose last row has the cause, with the sentence and the share of a call expected.

    `silent` has, by a description, changes after which the cause must not be found; each changes
    one fact that the rule depends on. `still` has changes after which it must be found. Where a
    rule compares with a threshold, `silent` has a value on one side and `still` on the other.
    """

    records: Sequence[Record]
    sentence: str
    silent: Mapping[str, Change]
    still: Mapping[str, Change] = field(default_factory=dict)
    share: float | None = None


def last(**columns: Any) -> Change:
    """Changes these columns of the last row, which is the one that is explained."""
    return lambda rows: [*rows[:-1], {**rows[-1], **columns}]


def first(**columns: Any) -> Change:
    """Changes these columns of the first row, with which the last one is compared."""
    return lambda rows: [{**rows[0], **columns}, *rows[1:]]


def alone(rows: Sequence[Row]) -> Sequence[Row]:
    """Leaves only the last row, so that there is none to compare it with."""
    return rows[-1:]


def kernels(*heaviest: Kernel) -> str:
    """A value of the column `heaviest_kernels`, with these kernels."""
    return json.dumps([{"name": name, "count": n, "seconds": s} for name, n, s in heaviest])
