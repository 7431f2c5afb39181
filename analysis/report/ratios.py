"""The modes of each work against each other: a folded table of ratios for each work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from modescope.analysis.derive import against
from modescope.analysis.derive.against import BETWEEN_PROCESSES
from modescope.analysis.derive.select import SAME_BASELINE, row_parts, trusted
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report import names
from modescope.analysis.report.names import Name, name
from modescope.analysis.report.study import Study
from modescope.bench.stats.estimates import MARGIN, verdict

MOST_MODES, MOST_WORKS = 12, 24  # per table: a wider one cannot be read; and per page
_NEEDED = tuple(dict.fromkeys((*names.NEEDED, *against.NEEDED, *SAME_BASELINE)))
_DECIDED = ("faster", "slower")


@dataclass(frozen=True)
class Ratio:
    """A cell: the mode of its row relative to that of its column."""

    text: str
    decided: bool  # whether the whole interval lies beyond ±1 %


@dataclass(frozen=True)
class Ratios:
    """The modes of one work that were paired with the same baseline, the fastest first."""

    title: str
    baseline: str
    names: tuple[Name, ...]
    rows: tuple[tuple[Ratio, ...], ...]
    more: int  # further modes, which the table does not have


def ratios(study: Study) -> dict[str, Any]:
    """The tables, how far their intervals are widened, and how many works have no table.

    Empty where no work has two modes besides its baseline.
    """
    rows = phrases.as_rows(trusted(study.rows)[list(_NEEDED)])
    works = [members for members in row_parts(rows, SAME_BASELINE) if _has_two_modes(members)]
    if not works:
        return {}
    shown = [members[:MOST_MODES] for members in works[:MOST_WORKS]]
    return {
        "tables": [_table(study, members) for members in works[:MOST_WORKS]],
        "margin": numbers.whole_percent(MARGIN),
        "widening": _widening(shown),
        "more": len(works) - len(shown),
        "folder": study.folder,
    }


def _has_two_modes(rows: Sequence[Row]) -> bool:
    return sum(not phrases.is_control(row) for row in rows) >= 2


def _widening(tables: Sequence[Sequence[Row]]) -> str:
    """`2.3 %`, if the interval of any ratio is widened by that; else empty."""
    pairs = (pair for rows in tables for pair in combinations(rows, 2))
    widened = any(against.is_widened(*pair) for pair in pairs)
    return numbers.percent(BETWEEN_PROCESSES) if widened else ""


def _table(study: Study, rows: Sequence[Row]) -> Ratios:
    shown = rows[:MOST_MODES]
    place = f" on {study.place(rows[0])}" if study.has_letters else ""
    return Ratios(
        f"{phrases.work(rows[0])}{place}",
        phrases.baseline(rows[0]),
        tuple(name(study, row) for row in shown),
        tuple(tuple(_ratio(row, other) for other in shown) for row in shown),
        len(rows) - len(shown),
    )


def _ratio(row: Row, other: Row) -> Ratio:
    found = against.ratio(row, other)
    if found is None:
        return Ratio(numbers.UNKNOWN, False)
    return Ratio(numbers.ratio(found), verdict(found) in _DECIDED)
