"""What a world of a cause is, and how a row of it is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.causes import Kernel

Change = Callable[[Sequence[Row]], Sequence[Row]]
"""Changes the derived rows of a world."""


@dataclass(frozen=True)
class World:
    """A study whose last row has the cause.

    `sentence`: what the cause says, with its figures; `share`: what it takes of a call. `silent`:
    by a description the changes after which it is not named; each changes one fact that the rule
    depends on. `still`: those after which it is still named. Where a rule decides on an interval,
    one of each lies at either side.
    """

    records: Sequence[Record]
    sentence: str
    silent: Mapping[str, Change]
    still: Mapping[str, Change] = field(default_factory=dict)
    share: float | None = None


def last(**columns: Any) -> Change:
    """The row that is explained with these columns."""
    return lambda rows: [*rows[:-1], {**rows[-1], **columns}]


def first(**columns: Any) -> Change:
    """The row that it is compared with, with these columns."""
    return lambda rows: [{**rows[0], **columns}, *rows[1:]]


def alone(rows: Sequence[Row]) -> Sequence[Row]:
    """The row without any other to compare it with."""
    return rows[-1:]


def kernels(*heaviest: Kernel) -> str:
    """The column `heaviest_kernels` with these."""
    return json.dumps([{"name": name, "count": n, "seconds": s} for name, n, s in heaviest])
