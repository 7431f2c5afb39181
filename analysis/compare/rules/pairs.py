"""Pairs each row of one side with the same row of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.compare.rules.sides import MATCH, Side
from modescope.analysis.derive import select
from modescope.analysis.derive.select import SECTION, row_parts, values_of
from modescope.analysis.format import phrases, style
from modescope.analysis.format.phrases import Row
from modescope.bench.records.errors import UsageError

WORK = (*(name for name in SECTION if name != "environment"), "baseline_mode", "baseline_dtype")
"""Columns that are equal in rows which share an eager baseline, on one side."""


@dataclass(frozen=True)
class Pair:
    """A row and its processes on both sides; none on a side where the row is missing."""

    row: Row  # describes it: of the new side if it is there
    old: tuple[Row, ...]
    new: tuple[Row, ...]

    @property
    def name(self) -> str:
        """`compile fp32`."""
        cache = "" if self.row["compile_cache"] == "cold" else ", warm cache"
        return f"{phrases.variant(self.row)}{cache}"

    @property
    def work(self) -> str:
        """`transformer, batch 4, seq 64, inference · cpu, 1 thread`."""
        threads = self.row["threads"]
        return (
            f"{phrases.work(self.row)} · {self.row['device']}, {threads} "
            f"thread{'' if threads == 1 else 's'}"
        )

    @property
    def group(self) -> tuple[object, ...]:
        """Equal for rows that share an eager baseline."""
        return values_of(self.row, WORK)


def matched(old: Side, new: Side) -> list[Pair]:
    """Every row of either side, by work and mode; UsageError if no row is on both sides."""
    sides = [by_row(side.processes) for side in (old, new)]
    keys = list(dict.fromkeys([*sides[1], *sides[0]]))
    if not sides[0].keys() & sides[1].keys():
        raise UsageError(
            f"no row of {old.folder} is in {new.folder}: their models, sizes, modes, devices or "
            "options differ in every row; measure both sides with the same overrides"
        )
    shown = [(sides[1].get(key) or sides[0][key])[0] for key in keys]
    pairs = [
        Pair(row, tuple(sides[0].get(key, ())), tuple(sides[1].get(key, ())))
        for key, row in zip(keys, named(shown), strict=True)
    ]
    return _in_order(pairs)


def by_row(processes: pd.DataFrame) -> dict[tuple[object, ...], list[Row]]:
    """The processes of each row, by the columns MATCH."""
    rows = phrases.as_rows(processes.sort_values("replicate", kind="stable"))
    return phrases.grouped((values_of(row, MATCH), row) for row in rows)


def named(rows: Sequence[Row]) -> list[Row]:
    """With the options that distinguish rows of equal names, on whatever side they were measured.

    Environments are no part of a name here: they are what differs between the sides.
    """
    columns = {*select.OPTIONS, *MATCH, *WORK, "mode", "dtype"}
    frame = pd.DataFrame([{name: row[name] for name in columns} for row in rows])
    apart = select.apart(frame.assign(environment=""))
    return [
        {**row, "environment": "", "apart": text} for row, text in zip(rows, apart, strict=True)
    ]


def _in_order(pairs: Sequence[Pair]) -> list[Pair]:
    by_run = {pair.row["run_id"]: pair for pair in pairs}
    blocks = row_parts([pair.row for pair in pairs], SECTION)
    ordered = (row for block in blocks for row in sorted(block, key=_place))
    return [by_run[row["run_id"]] for row in ordered]


def _place(row: Row) -> tuple[tuple[int, int], str, str]:
    return style.order(row), row["dtype"], str(row["apart"])
