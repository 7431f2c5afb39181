"""A comparison as a page: one file that needs no network and no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modescope.analysis.compare.formats import forest, words
from modescope.analysis.compare.rules.exact import WORSE, Finding
from modescope.analysis.compare.rules.gate import (
    FAILED,
    NOT_COMPARED,
    PASSED,
    UNDECIDED,
    Compared,
    Comparison,
)  # fmt: skip
from modescope.analysis.figures.theme import inline, svg
from modescope.analysis.format import phrases
from modescope.analysis.format.tables import Table
from modescope.analysis.report import glyphs
from modescope.bench.text import markup

Cells = tuple[str, ...]


@dataclass(frozen=True)
class ByWork:
    """A table of text with a block of rows per work; the first `named` columns are left-aligned."""

    title: str
    titles: Cells
    named: int
    works: list[tuple[str, list[Cells]]]


_ENGINE = markup.html_engine("modescope.analysis.compare.formats", "modescope.analysis.report")
_STATUS = {FAILED: "fails", NOT_COMPARED: "fails", UNDECIDED: "open", PASSED: "passes"}


def text(comparison: Comparison) -> str:
    """The sentence, the changes as figures, what differs, exact changes, all rows."""
    request = comparison.request
    return _ENGINE.get_template("compare.html.j2").render(
        colours=glyphs.colours(),
        old=request.old.name or str(request.old),
        new=request.new.name or str(request.new),
        sentence=comparison.sentence,
        status=_STATUS[comparison.status],
        gates=words.gates(comparison) if comparison.rows else "",
        notes=comparison.notes,
        figures=_figures(comparison),
        differing=_differing(comparison) if comparison.rows else None,
        same=words.SAME,
        eager=_eager(comparison),
        exact=_exact(comparison),
        changed=_rows("Rows that changed", words.changed(comparison)),
        unchanged=_rows("Rows without a change that was shown", words.unchanged(comparison)),
        rest=words.summary(words.unchanged(comparison)),
        legend=words.LEGEND,
    )


def _figures(comparison: Comparison) -> list[tuple[str, str]]:
    """A title and an SVG for each figure."""
    request = comparison.request
    kinds = (
        ("Latency", lambda row: row.timing.latency, request.latency_margin),
        ("Time against eager", lambda row: row.timing.against_eager, request.margin),
    )
    drawn = (
        (title, forest.draw(comparison.rows, title, choose, margin))
        for title, choose, margin in kinds
    )
    return [(title, inline(svg(one, title))) for title, one in drawn if one is not None]


def _differing(comparison: Comparison) -> Table:
    rows = tuple((one.column, one.old, one.new, f"{one.rows}") for one in comparison.differences)
    return Table("What differs", ("column", "old", "new", "rows"), 3, rows)


def _eager(comparison: Comparison) -> Table:
    rows = tuple(
        (one.work, words.change(one.change), f"{one.old}", f"{one.new}") for one in comparison.eager
    )
    titles = ("work", "change of eager's time [95 %]", "old readings", "new readings")
    return Table("Eager itself", titles, 1, rows)


def _exact(comparison: Comparison) -> ByWork:
    lines = (
        (row.pair.work, (row.pair.name, one.text, _kind(one, row)))
        for row in comparison.rows
        for one in row.findings
    )
    return _by_work("Exact changes", ("row", "change", "kind"), 3, lines)


def _kind(one: Finding, row: Compared) -> str:
    if one.kind != WORSE:
        return one.kind
    return "fails" if one.text in row.failures else "worse, not gated"


def _rows(title: str, rows: Sequence[Compared]) -> ByWork:
    *levels, verdict = words.TITLES
    lines = (
        (row.pair.work, (row.pair.name, words.cells(row)[-1], *words.cells(row)[:-1]))
        for row in rows
    )
    return _by_work(title, ("row", verdict, *levels), 2, lines)


def _by_work(
    title: str, titles: tuple[str, ...], named: int, lines: Iterable[tuple[str, Cells]]
) -> ByWork:
    return ByWork(title, titles, named, list(phrases.grouped(lines).items()))
