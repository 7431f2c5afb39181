"""What differs between the two sides beside the results, and what of it is refused."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.compare.sides import UNREADABLE, Pair
from modescope.analysis.format.numbers import UNKNOWN
from modescope.bench.records.environment import FINGERPRINT
from modescope.bench.records.errors import UsageError

REFUSED = {
    "host": ("host", "cpu_name", "cpu_model", "cpu_cores", "cpu_quota_cores"),
    "device": ("device_name",),
    "driver_version": ("driver_version",),
    "power_limit": ("power_limit_w",),
    "harness": ("schema_version", "source_id"),
    "budget": ("budget", "budget_settings"),
    "variables": ("variables",),
    "versus_side": ("versus_side",),
}
"""Names that --allow takes, and their columns: results that differ in one are not comparable."""

ALLOWED = (*REFUSED, UNREADABLE)

_OF = {column: name for name, columns in REFUSED.items() for column in columns}
STATE = "versus_state"
"""What a side of versus was told to be; alone no difference, as both may hold the same code."""

COLUMNS = tuple(
    dict.fromkeys([STATE, *(name for name in FINGERPRINT), "model_source_id", "seed", *_OF])
)
"""Everything that is looked at."""

_JSON = ("variables", "budget_settings")
_HASHES = ("source_id", "model_source_id")
_KEPT = 8  # characters of a hash


@dataclass(frozen=True)
class Difference:
    """A column whose value differs between the sides in `rows` rows."""

    column: str
    old: str
    new: str
    rows: int
    refusal: str | None  # the name that allows it, if it is refused without


def found(pairs: Sequence[Pair]) -> list[Difference]:
    """The differences over all rows that are on both sides."""
    counts = Counter(one for pair in pairs if pair.old and pair.new for one in _of_pair(pair))
    every = (
        Difference(column, old, new, rows, _OF.get(column))
        for (column, old, new), rows in counts.items()
    )
    differing = sorted(every, key=lambda one: COLUMNS.index(one.column))
    return [] if {one.column for one in differing} == {STATE} else differing


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds --allow."""
    parser.add_argument(
        "--allow", metavar="NAME", action="append", default=[],
        help=f"compare although this differs: {', '.join(ALLOWED)}",
    )  # fmt: skip


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The names in `host,budget`, of each --allow; UsageError for one that is never refused."""
    names = [name.strip() for text in texts for name in text.split(",")]
    for name in names:
        if name not in ALLOWED:
            allowed = ", ".join(ALLOWED)
            raise UsageError(f"--allow {name}: nothing has this name; there are {allowed}")
    return tuple(dict.fromkeys(names))


def check(differences: Sequence[Difference], allowed: Collection[str]) -> None:
    """UsageError if the sides differ in something that makes them incomparable."""
    refused = [one for one in differences if one.refusal and one.refusal not in allowed]
    if not refused:
        return
    names = " ".join(f"--allow {name}" for name in dict.fromkeys(one.refusal for one in refused))
    texts = "; ".join(f"{one.column} {one.old} → {one.new}" for one in refused)
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
        old, new = (list(dict.fromkeys(row[column] for row in rows)) for rows in sides)
        exchanged = old[0] == "new" or new[0] == "old"
        if exchanged if column == "versus_side" else {*old} != {*new}:
            differing.append((column, *_texts(column, old, new)))
    return differing


def _texts(column: str, old: Sequence[Any], new: Sequence[Any]) -> list[str]:
    """Both values as text; of JSON only the entries that differ."""
    if column in _JSON and len(old) == len(new) == 1:
        left, right = (json.loads(one[0] or "{}") for one in (old, new))
        names = [key for key in {**left, **right} if left.get(key) != right.get(key)]
        return [
            ", ".join(f"{key}={side.get(key, UNKNOWN)}" for key in names) for side in (left, right)
        ]
    return [" and ".join(_text(column, one) for one in values) for values in (old, new)]


def _text(column: str, value: Any) -> str:
    if value is None:
        return UNKNOWN
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text[:_KEPT] if column in _HASHES else text
