"""The kernels and operators that take most of a call's time, by mode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row

MOST = 5  # per mode
NAMED = 2  # leading columns: mode and name
_LONGEST_NAME = 80  # characters; names of C++ templates have hundreds


@dataclass(frozen=True)
class Kind:
    """A list: its column of JSON, and the column of the whole that its shares refer to."""

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
    """A line of cells (`Kind.titles`) per entry, the heaviest of each mode first."""
    for row in sorted((row for row in rows if row[kind.column]), key=style.order):
        for one in json.loads(row[kind.column])[:MOST]:
            yield (
                phrases.variant(row),
                _cut(one["name"]),
                f"{one['count']:.3g}",
                numbers.duration(one["seconds"]),
                _share(one["seconds"], row[kind.whole]),
            )


def _share(part_s: float, whole_s: float | None) -> str:
    """Unknown if the part is larger than the whole: then they are not from the same call."""
    if not whole_s or round(part_s / whole_s, 2) > 1:
        return numbers.UNKNOWN
    return numbers.share(part_s, whole_s)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
