"""Rows in tf32 as they stand over eager in fp32, by their chained speedups.

How these are derived, and why, is in `analysis.derive.chained`.
"""

from __future__ import annotations

from collections.abc import Iterable

from modescope.analysis.rows.type import Row
from modescope.bench.stats import estimates

LINKED, COMMON = "tf32", "fp32"
"""The dtype of rows that are linked, and that of the baseline that they are linked to."""


def in_place(row: Row) -> Row:
    """Returns a row with its chained speedup, and what it is over, in place of the paired one.

    `is_chained` is then true, which `cells.speedup` marks. A row without one is returned as it is.
    """
    chained = row["chained_speedup"]
    if chained is None:
        return row
    return {
        **row,
        "baseline_dtype": COMMON,
        "speedup": chained,
        "verdict": estimates.verdict(chained),
        "mde": None,
        "is_chained": True,
    }


_LEGEND = (
    f"chained: over {{mode}} {COMMON} by way of {{mode}} {LINKED}, the product of two speedups "
    "that were each timed in rounds of their own process"
)


def legend(rows: Iterable[Row]) -> str:
    """Returns a note on chained speedups; empty if no row has one."""
    known = [row for row in rows if row["chained_speedup"] is not None]
    return _LEGEND.format(mode=known[0]["baseline_mode"]) if known else ""
