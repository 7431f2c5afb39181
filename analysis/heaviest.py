"""The kernels that most of a call's device time goes to, mode by mode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from analysis import style, words
from analysis.words import Row

MOST = 5  # of a mode
_LONGEST_NAME = 80  # characters; those of C++ templates go on for hundreds

TITLES = ("mode", "kernel", "count", "time per call", "of all kernels")


def table(rows: Iterable[Row]) -> Iterator[list[str]]:
    """A line of cells (`TITLES`) per kernel, the heaviest of each mode first.

    Of rows that ended ok, in effect or not: what ran is what ran.
    """
    profiled = [row for row in rows if row["status"] == "ok" and row["heaviest_kernels"]]
    for row in sorted(profiled, key=style.order):
        for kernel in json.loads(row["heaviest_kernels"])[:MOST]:
            yield [
                words.variant(row),
                _cut(kernel["name"]),
                f"{kernel['count']:.3g}",
                words.duration(kernel["seconds"]),
                words.share(kernel["seconds"], row["kernels_s"] or None),
            ]


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
