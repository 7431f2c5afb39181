"""The columns of the readable tables, in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analysis import words
from analysis.words import Row


@dataclass(frozen=True)
class Column:
    """A column of a readable table; `optional`: left out where no row has anything to say."""

    title: str
    cell: Callable[[Row], str]
    align: str = "<"  # < | >
    optional: bool = False


# What is said of a run that ended ok; any other has its reason in place of these.
MEASURED = (
    Column("latency [95 %]", words.latency),
    Column("speedup [95 %]", words.speedup),
    Column("verdict", lambda row: row["verdict"] or words.UNKNOWN),
    Column("first call", words.first_call, align=">"),
    Column("pays after", words.break_even, align=">"),
    Column("error", lambda row: words.error(row["error"]), align=">"),
    Column("remarks", words.remarks, optional=True),
)

# Where there is room for more.
DETAILED = (
    *MEASURED[:3],
    Column("mde", lambda row: words.percent(row["mde"]), align=">"),
    Column("p95", lambda row: words.duration(row["latency_p95_s"]), align=">"),
    *MEASURED[3:6],
    Column("rounds", lambda row: words.calls(row["rounds"]), align=">"),
    Column("remarks", words.all_remarks, optional=True),
)


def wanted(columns: Iterable[Column], rows: Iterable[Row]) -> list[Column]:
    """`columns` without the optional ones that would be empty in every row that ended ok."""
    ok = [row for row in rows if row["status"] == "ok"]
    return [c for c in columns if not c.optional or any(c.cell(row) for row in ok)]
