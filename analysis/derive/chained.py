"""Speedups of modes in tf32 over eager in fp32, by way of eager in tf32.

tf32 is set for a whole process, so a mode that compiles is timed against eager in tf32. Another
process, which compiles nothing, times eager in tf32 against eager in fp32: the link. The product of
both paired ratios is the chained speedup. It is no paired ratio: modes in tf32 are compared with
each other by their own baseline, and only with modes of other precisions by this one.

Its interval is that of two processes in `against`: Welch's over processes if there are
LEAST_PROCESSES or more of each, else the product of both intervals' ends, widened by
BETWEEN_PROCESSES. For independent errors the product of ends alone covers 95 % if one interval is
much wider than the other, and 99.4 % if they are equally wide. The root of the squared half-widths
of the logarithms (JCGM 100:2008, 5.1.2) would be narrower, but it knows only the errors within the
processes. In simulated studies whose processes differ by a standard deviation of 0.5 % it covers
91 %, with 1 % only 70 %, and the interval used here at least 99 %
(tests/analysis/derive/test_chained.py).
"""

from __future__ import annotations

import pandas as pd

from modescope.analysis.derive import against
from modescope.analysis.derive.over_fp32 import COMMON, LINKED
from modescope.analysis.derive.select import SECTION, is_plain, per_row, trusted, values_of
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped
from modescope.bench.records.cases import PLAIN_EAGER

_NEEDED = (
    *SECTION, *PLAIN_EAGER, *against.NEEDED, "compile_cache", "status", "in_effect",
)  # fmt: skip


def links(rows: pd.DataFrame) -> list[Row | None]:
    """Returns for each row its link: its baseline as a row of its own, over that mode in fp32.

    Only rows in tf32 against a baseline in tf32 have a link. It has the same work and machine, is
    plain eager, and can be trusted (`select.trusted`); one with the same compiler cache is
    preferred.
    """
    if not (rows["baseline_dtype"] == LINKED).any():
        return [None] * len(rows)
    every = as_rows(rows[[*dict.fromkeys(_NEEDED)]])
    good = set(trusted(rows)["run_id"])
    found = grouped(
        (_as_baseline(row, row["mode"], row["dtype"], row["baseline_mode"]), row)
        for row in every
        if (row["dtype"], row["baseline_dtype"]) == (LINKED, COMMON)
        and is_plain(row)
        and row["run_id"] in good
    )
    return [_link(row, found) for row in every]


def _as_baseline(
    row: Row, mode: str | None, dtype: str | None, common: str | None
) -> tuple[object, ...]:
    return (*values_of(row, SECTION), mode, dtype, common)


def _link(row: Row, found: dict[tuple[object, ...], list[Row]]) -> Row | None:
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    if (row["dtype"], dtype) != (LINKED, LINKED):
        return None
    candidates = found.get(_as_baseline(row, mode, dtype, mode), [])
    other = (candidate["compile_cache"] != row["compile_cache"] for candidate in candidates)
    return min(zip(other, candidates, strict=True), key=lambda pair: pair[0], default=(0, None))[1]


def chained_speedup(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row with a link an Estimate of its speedup over that link's baseline."""
    found = links(rows)
    if not any(found):
        return per_row(rows, found, "object")
    pairs = zip(as_rows(rows[list(against.NEEDED)]), found, strict=True)
    return per_row(rows, (link and against.chain(row, link) for row, link in pairs), "object")


def link_run_id(rows: pd.DataFrame) -> pd.Series:
    """Returns the run_id of each row's link; null without one."""
    return per_row(rows, (link and link["run_id"] for link in links(rows)), "object")
