"""Columns and tables from the profile of a call: idle time, kernels, compiled code's overhead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.derive.flags import FLAGS, LONGER, Doubted
from modescope.analysis.derive.select import per_row
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of

DOUBTS = {name for name, flag in FLAGS.items() if flag.touches is Doubted.PROFILE}
"""The flags that make a profile unreliable."""

MOST = 5  # per mode
NAMED = 2  # leading columns: mode and name
_LONGEST_NAME = 80  # characters; names of C++ templates have hundreds


def residual_s(rows: pd.DataFrame) -> pd.Series:
    """Returns the seconds of work that the profile does not explain (negative: it has more)."""
    return rows["work_s"] * (1 - _reliable(rows, "profiled_share"))


def device_idle_fraction(rows: pd.DataFrame) -> pd.Series:
    """Returns the share of each call in which the GPU is idle."""
    return (1 - _reliable(rows, "busy_share")).clip(lower=0)


def _reliable(rows: pd.DataFrame, share: str) -> pd.Series:
    doubtful = (not DOUBTS.isdisjoint(flags) for flags in rows["flags"])
    shares: pd.Series = rows[share].mask(per_row(rows, doubtful, "bool"))
    return shares


@dataclass(frozen=True)
class CompiledCall:
    """The time of one profiled call of compiled code (`span_s`), and of two parts of its overhead.

    The profiler records all three in the same call, so no call on an empty batch is needed.
    Both are estimates: profiling lengthens short ranges, but a lookup of many guards was recorded
    with half of what leaving them out saves (`step_guards`).
    """

    span_s: float
    lookup_s: float  # of compiled code, for which its guards are checked
    wrapper_s: float  # Python around compiled graphs

    @property
    def overhead_share(self) -> float:
        """The share of the call that lookup and wrapper take together."""
        return (self.lookup_s + self.wrapper_s) / self.span_s


def compiled_call(row: Row) -> CompiledCall | None:
    """Returns the CompiledCall that a row's profile recorded.

    None without compiled code or a profile, if the parts take longer than the call, because they
    are then from another call, and if the call took far longer than the timed ones (flag LONGER).
    """
    if LONGER in predicates.flags(row):
        return None
    span_s = row.get("profiled_span_s")
    lookup_s, wrapper_s = row.get("guards_s"), row.get("compiled_wrapper_s")
    if not span_s or lookup_s is None or wrapper_s is None or lookup_s + wrapper_s > span_s:
        return None
    return CompiledCall(span_s, lookup_s, wrapper_s)


@dataclass(frozen=True)
class Kind:
    """A table of the heaviest kernels or operators.

    `column` is the column with their JSON. Each one's share is shown of the time in column `whole`.
    `titles` are the titles of the table's columns.
    """

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


def heaviest(rows: Iterable[Row], kind: Kind) -> Iterator[tuple[str, ...]]:
    """Yields the lines of the table `kind`: the MOST heaviest entries of each mode."""
    for row in sorted((row for row in rows if value_of(row, kind.column)), key=style.order):
        whole_s = None if LONGER in predicates.flags(row) else value_of(row, kind.whole)
        for entry in json.loads(value_of(row, kind.column))[:MOST]:
            name = entry["name"]
            yield (
                phrases.variant(row),
                name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…",
                f"{entry['count']:.3g}",
                numbers.duration(entry["seconds"]),
                _share(entry["seconds"], whole_s),
            )


def _share(part_s: float, whole_s: float | None) -> str:
    """Formats `part_s` ÷ `whole_s` in percent.

    UNKNOWN without a whole, or if the part exceeds it, because it is then from another call.
    """
    if not whole_s or round(part_s / whole_s, 2) > 1:
        return numbers.UNKNOWN
    return numbers.share(part_s, whole_s)
