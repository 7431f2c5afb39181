"""The kernels and operators that most of a call's time goes to, mode by mode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analysis import numbers, style, words
from analysis.words import Row

MOST = 5  # of a mode
NAMED = 2  # leading columns: mode and name
_LONGEST_NAME = 80  # characters; those of C++ templates go on for hundreds


@dataclass(frozen=True)
class Kind:
    """What is listed: its column of JSON, and the column that its shares are of."""

    title: str
    column: str
    whole: str
    titles: tuple[str, ...]


KINDS = (
    Kind("Heaviest kernels", "heaviest_kernels", "kernels_s",
         ("mode", "kernel", "count", "time per call", "of all kernels")),
    Kind("Heaviest operators, by their own time", "heaviest_ops", "profiled_span_s",
         ("mode", "operator", "count", "time per call", "of the profiled call")),
)  # fmt: skip


def table(rows: Iterable[Row], kind: Kind) -> Iterator[tuple[str, ...]]:
    """A line of cells (`Kind.titles`) for each, the heaviest of each mode first."""
    for row in sorted((row for row in rows if row[kind.column]), key=style.order):
        for one in json.loads(row[kind.column])[:MOST]:
            yield (
                words.variant(row),
                _cut(one["name"]),
                f"{one['count']:.3g}",
                numbers.duration(one["seconds"]),
                _share(one["seconds"], row[kind.whole]),
            )


def _share(part_s: float, whole_s: float | None) -> str:
    """Unknown where the part is larger than the whole: then they are not of the same call."""
    if not whole_s or round(part_s / whole_s, 2) > 1:
        return numbers.UNKNOWN
    return numbers.share(part_s, whole_s)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
