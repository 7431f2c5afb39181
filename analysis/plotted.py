"""The numbers that each figure shows, as a table for those who cannot see it or want to copy it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from analysis import grids, numbers, style, words
from analysis import memory as made_of
from analysis import waterfall as steps
from analysis.columns import AGAINST, FUSION, KERNELS, NAMING, SPEEDUP, VERDICT, Column, told_by
from analysis.gains import Pair, pairs
from analysis.grids import Grid
from analysis.rows import trusted
from analysis.series import Series, by_slope
from analysis.tables import Table, of_columns
from analysis.words import Row


def _clock(title: str, name: str) -> Column:
    return Column(title, lambda row: numbers.duration(row[name]), ">", optional=True)


_SPEEDUP = (
    AGAINST,
    SPEEDUP,
    VERDICT,
    Column("smallest change shown", lambda row: numbers.percent(row["mde"]), optional=True),
    Column("rounds", lambda row: numbers.calls(row["rounds"])),
)
_LATENCY = (
    Column("latency [95 %]", words.latency),
    Column("p95", lambda row: numbers.duration(row["latency_p95_s"]), optional=True),
)
_OVERHEAD = (
    _clock("latency", "latency_s"),
    _clock("dispatch", "dispatch_s"),
    Column("of the call", lambda row: numbers.share(row["dispatch_s"], row["latency_s"])),
    Column("host", words.host_of_cuda, optional=True),
    _clock("launching", "launch_s"),
    _clock("host waits", "host_wait_s"),
    _clock("work", "work_s"),
    Column("work the profiler did not see", words.residual, optional=True),
    Column("launches", words.launches, optional=True),
    Column("idle", lambda row: numbers.share(row["device_idle_fraction"], 1), optional=True),
)


def _of(title: str, columns: tuple[Column, ...]) -> Callable[[pd.DataFrame], Table]:
    def table(section: pd.DataFrame) -> Table:
        rows = _charted(section)
        return of_columns(title, rows, (*NAMING, *told_by(rows)), columns)

    return table


def _charted(section: pd.DataFrame) -> list[Row]:
    return sorted(words.as_rows(trusted(section)), key=style.order)


speedups = _of("Speedups", _SPEEDUP)
latencies = _of("Latencies", _LATENCY)
overheads = _of("Parts of a call", _OVERHEAD)


def waterfalls(section: pd.DataFrame) -> Table:
    """Each step with its level, what it takes off, and the floor."""
    lines = []
    for found in steps.waterfalls(section):
        for step in found.steps:
            off = numbers.estimate(step.off) if step.off is not None else numbers.UNKNOWN
            lines.append(
                (words.mode(step.row), step.row["dtype"], numbers.estimate(step.level), off)
            )
        if found.floor_s is not None:
            floor = f"{numbers.duration(found.floor_s)} ({found.floor_bound})"
            lines.append(("floor", found.steps[0].row["dtype"], floor, numbers.UNKNOWN))
    titles = ("step", "dtype", "time of a call [95 %]", "less than the step before [95 %]")
    return Table("Steps", titles, 2, tuple(lines))


def fusions(section: pd.DataFrame) -> Table:
    """The work of each mode beside that of eager."""
    found = pairs(section)
    lines = tuple(_fusion(pair) for pair in found)
    titles = (*(c.title for c in NAMING), "work", "eager's work", "kernels", "eager's kernels",
              "fusion gain [95 %]", "gains alone", "launch gain")  # fmt: skip
    return Table("Work", titles, len(NAMING), lines)


def _fusion(pair: Pair) -> tuple[str, ...]:
    row = pair.row
    return (
        *(column.cell(row) for column in NAMING),
        numbers.duration(row["work_s"]),
        numbers.duration(pair.reference_work_s),
        KERNELS.cell(row),
        KERNELS.cell(pair.reference),
        FUSION.cell(row),
        numbers.factor(row["fusion_speedup"]),
        numbers.factor(row["launch_gain"]),
    )


_BARS = ("peak", "between two steps")


def memories(section: pd.DataFrame) -> Table:
    """The parts of each peak, and of training those of what is held between two steps."""
    rows = made_of.charted(section)
    bars = [
        (row, name, dict(lane))
        for row in rows
        for name, lane in zip(_BARS, made_of.lanes(row), strict=False)
    ]
    used = [name for name in style.SOURCES if any(name in parts for _, _, parts in bars)]
    two = len(bars) > len(rows)
    lines = tuple(
        (
            *(column.cell(row) for column in NAMING),
            *((name,) if two else ()),
            *(
                numbers.size(parts.get(part, made_of.without(row, part, name == _BARS[0])))
                for part in used
            ),
            numbers.size(sum(parts.values())),
            numbers.size(row["setup_peak_bytes"] if name == _BARS[0] else None),
        )
        for row, name, parts in bars
    )
    naming = (*(c.title for c in NAMING), *(("when",) if two else ()))
    named = (style.SOURCES[part].name for part in used)
    return Table("Memory", (*naming, *named, "in all", "setup peak"), len(naming), lines)


def speedup_grid(found: Sequence[Grid]) -> Table:
    """Speedups by mode and size, of all grids of one work beneath each other."""
    sizes = sorted({size for grid in found for size in grid.sizes})
    lines = []
    for grid in found:
        contest = ", ".join(filter(None, (words.contest(grid.first), words.sizes(grid.others))))
        for name, mode in zip(grid.names, grid.modes, strict=True):
            at = dict(zip(grid.sizes, mode, strict=True))
            lines.append((name, contest, *(grids.cell(at.get(size)) for size in sizes)))
    titles = ("mode", "comparison", *(f"{found[0].size} {size}" for size in sizes))
    return Table("Speedups by size", titles, 2, tuple(lines))


def sizes(found: Series) -> Table:
    """Latency and overhead of each mode at each size."""
    every = sorted({size for line in found.lines for size in line.sizes})
    lines = []
    for line in sorted(found.lines, key=lambda line: style.order(line.rows[0])):
        at = dict(zip(line.sizes, line.rows, strict=True))
        for clock in ("latency", found.overhead.clock):
            told = [_at(at.get(size), clock) for size in every]
            if set(told) != {numbers.UNKNOWN}:
                lines.append((line.name, clock, *told))
    titles = ("mode", "clock", *(f"{found.size} {size}" for size in every))
    return Table(f"Times over {found.size}", titles, 2, tuple(lines))


def _at(row: Row | None, clock: str) -> str:
    return numbers.UNKNOWN if row is None else numbers.duration(row[f"{clock}_s"])


def slopes(chain: Series) -> Table:
    """The overhead of one more operator."""
    lines = tuple((line.name, numbers.estimate(slope)) for line, slope in by_slope(chain))
    title = f"{chain.overhead.name} per {chain.unit}"
    return Table(title.capitalize(), ("mode", f"{title} [95 %]"), 1, lines)
