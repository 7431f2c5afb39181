"""The first call with an empty and with a filled cache of the compiler, by phase of compiling."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.derive.profile import REST_OF_CALL, phases_of, with_rest
from modescope.analysis.derive.select import THREADED, values_of
from modescope.analysis.figures.draw.bars import Look, bars, length_axis
from modescope.analysis.figures.draw.canvas import MOST_ROWS, Entry, and_more
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.section import charted
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import CACHE, NAMING, Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table, of_columns

_FOOT = (
    "bar: the first call by phase; cold: with an empty cache of the compiler, warm: with a filled "
    "one. Each is a single reading"
)
_VARIANT = (*(name for name in THREADED if name != "compile_cache"), "threads")
_LOOKS = {
    "dynamo": Look("tracing (Dynamo)", style.OPTIMIZER),
    "aot": Look("AOTAutograd", style.OPTIMIZER, "////"),
    "inductor": Look("Inductor", style.ACTIVATIONS),
    "kernels": Look("C++ or Triton", style.ACTIVATIONS, "////"),
    "autotune": Look("autotuning", style.FADED, "////"),
    REST_OF_CALL: Look("the rest of the call", None),
}


def pairs(section: pd.DataFrame) -> list[tuple[Row, Row]]:
    """The rows (cold, warm) of each compiled variant with known phases in both states."""
    known = [row for row in charted(section) if phases_of(row)]
    groups = phrases.grouped((values_of(row, _VARIANT), row) for row in known)
    states = ({row["compile_cache"]: row for row in members} for members in groups.values())
    return [(both["cold"], both["warm"]) for both in states if both.keys() >= {"cold", "warm"}]


def draw(section: pd.DataFrame) -> Figure | None:
    """Stacked bars of the phases, cold above warm; None unless a mode was measured in both."""
    rows = _rows(section)
    if not rows:
        return None
    drawn = [(_entry(row), [list(with_rest(row).items())]) for row in rows[:MOST_ROWS]]
    foot = f"{and_more(_FOOT, len(rows) - len(drawn))}\n{phrases.work(rows[0])}"
    with matplotlib.rc_context(style.RC):
        stack, axes = bars("First call, cold and warm", drawn, _LOOKS, foot)
        length_axis(axes, numbers.tick)
    return stack.figure


def _rows(section: pd.DataFrame) -> list[Row]:
    return [row for both in pairs(section) for row in both]


def _entry(row: Row) -> Entry:
    name = f"{phrases.variant(row)}, {row['compile_cache']}"
    return Entry(name, f"first call {numbers.duration(row['first_call_s'])}", row)


def caption(section: pd.DataFrame) -> str | None:
    """Both first calls of each mode, the phase that the cache saves most of, and what it lacked."""
    found = pairs(section)
    if not found:
        return None
    lacked = [warm for _, warm in found if warm["compiler_cache_misses"]]
    sentences = [f"First call, cold and warm: {'; '.join(_clause(*both) for both in found)}"]
    sentences += [f"Not in the warm cache: {_named(lacked)}"] if lacked else []
    return " ".join(f"{sentence}." for sentence in sentences)


def _clause(cold: Row, warm: Row) -> str:
    """`compile fp32 7.20 s and 1.03 s, of which the cache saves 4.10 s of Inductor`."""
    before, after = phases_of(cold), phases_of(warm)
    saved = {name: spent_s - after.get(name, 0.0) for name, spent_s in before.items()}
    phase = max(saved, key=lambda name: saved[name])
    times = " and ".join(numbers.duration(row["first_call_s"]) for row in (cold, warm))
    most = f", with {numbers.duration(saved[phase])} less of {_LOOKS[phase].name}"
    return f"{phrases.variant(cold)} {times}{most if saved[phase] > 0 else ''}"


def _named(rows: Sequence[Row]) -> str:
    return ", ".join(
        f"{phrases.variant(row)} (from cache: {cells.from_cache(row)})" for row in rows
    )


def table(section: pd.DataFrame) -> Table:
    """The phases of each first call."""
    return of_columns("Phases of compiling", _rows(section), (*NAMING, CACHE), _COLUMNS)


def _phase(name: str) -> Column:
    title = _LOOKS[name].name
    return Column(title, lambda row: numbers.duration(with_rest(row).get(name)), ">", optional=True)


_COLUMNS = (
    Column("first call", lambda row: numbers.duration(row["first_call_s"]), ">"),
    *map(_phase, _LOOKS),
    Column("from cache", cells.from_cache, ">", optional=True),
    Column("baseline's", lambda row: numbers.duration(row["baseline_first_call_s"]), ">"),
)


FIGURE = FigureKind(
    "compiling", "First call, cold and warm",
    "stacked bars of the phases of compiling, with a cold and a warm cache", draw, caption, table,
)  # fmt: skip
