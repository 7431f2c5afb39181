"""Finds differences in the conditions of two studies, and those that forbid comparing them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.compare.arguments import REFUSED
from modescope.analysis.compare.sides import Pair
from modescope.analysis.format.numbers import UNKNOWN
from modescope.analysis.rows.values import value_of
from modescope.bench.records.environment import FINGERPRINT
from modescope.bench.records.errors import UsageError

_OF = {column: name for name, columns in REFUSED.items() for column in columns}
STATE = "versus_state"
"""The column with the state that a side of versus was asked to measure.

A difference in this column alone is none, because two states may hold the same code.
"""

COLUMNS = tuple(dict.fromkeys([STATE, *FINGERPRINT, "quantizer", "model_source_id", "seed", *_OF]))
"""All columns in which the sides are searched for differences."""


@dataclass(frozen=True)
class Difference:
    """A column whose value differs between the old and the new study, in `rows` rows.

    `refusal`: the name that --allow takes to compare nevertheless; None if this is never refused.
    """

    column: str
    old: str
    new: str
    rows: int
    refusal: str | None  # the name that allows it, if it is refused without


def find_differences(pairs: Sequence[Pair]) -> list[Difference]:
    """Finds the columns whose values differ between the studies, in rows that both studies have."""
    counts = Counter(
        difference for pair in pairs if pair.old and pair.new for difference in _of_pair(pair)
    )
    differing = sorted(counts.items(), key=lambda item: COLUMNS.index(item[0][0]))
    if {column for (column, _, _), _ in differing} == {STATE}:
        return []
    return [
        Difference(column, old, new, rows, _OF.get(column))
        for (column, old, new), rows in differing
    ]


def check(differences: Sequence[Difference], allowed: Collection[str]) -> None:
    """Raises UsageError if a difference forbids the comparison and is not in `allowed`."""
    refused = [
        difference
        for difference in differences
        if difference.refusal and difference.refusal not in allowed
    ]
    if not refused:
        return
    names = " ".join(
        f"--allow {name}" for name in dict.fromkeys(difference.refusal for difference in refused)
    )
    texts = "; ".join(
        f"{difference.column} {difference.old} → {difference.new}" for difference in refused
    )
    raise UsageError(
        f"the sides are not comparable, as they differ in {texts}; measure both alike, or compare "
        f"them nevertheless with {names}"
    )


def _of_pair(pair: Pair) -> list[tuple[str, ...]]:
    sides = [[row for row in rows if row["environment_id"]] for rows in (pair.old, pair.new)]
    if not all(sides):  # ended before the environment was read
        return []
    differing = []
    for column in COLUMNS:
        old, new = (list(dict.fromkeys(value_of(row, column) for row in rows)) for rows in sides)
        exchanged = old[0] == "new" or new[0] == "old"
        if exchanged if column == "versus_side" else {*old} != {*new}:
            differing.append((column, *_texts(column, old, new)))
    return differing


def _texts(column: str, old: Sequence[Any], new: Sequence[Any]) -> list[str]:
    """Formats the old and the new values; of a JSON column, only the entries that differ."""
    if column in ("variables", "budget_settings") and len(old) == len(new) == 1:
        left, right = (json.loads(values[0] or "{}") for values in (old, new))
        names = [key for key in {**left, **right} if left.get(key) != right.get(key)]
        return [
            ", ".join(f"{key}={side.get(key, UNKNOWN)}" for key in names) for side in (left, right)
        ]
    return [" and ".join(_text(column, value) for value in values) for values in (old, new)]


def _text(column: str, value: Any) -> str:
    if value is None:
        return UNKNOWN
    if column.endswith("source_id"):
        return str(value)[:8]  # of a hash
    return f"{value:g}" if isinstance(value, float) else str(value)
