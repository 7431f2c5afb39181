"""A comparison as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modescope.analysis.compare.formats import words
from modescope.analysis.compare.rules.gate import Compared, Comparison
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.paragraphs import WIDTH, beneath, paragraph

_GAP = "  "
_MOST = 40  # lines of one kind; files hold all


def text(comparison: Comparison) -> str:
    """The sentence, what differs, eager's own change, the changed rows; the others are counted."""
    return "\n".join(_lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    yield from paragraph(comparison.sentence)
    yield from paragraph(words.gates(comparison))
    for note in comparison.notes:
        yield from paragraph(note)
    yield ""
    yield "what differs"
    yield from _some([beneath(text) for text in words.differing(comparison)])
    if comparison.eager:
        yield "eager itself"
        yield from _some([beneath(f"{words.eager(one)}  {one.work}") for one in comparison.eager])
    changed, rest = words.changed(comparison), words.unchanged(comparison)
    if changed:
        yield ""
        yield from _table(changed)
    if rest:
        yield ""
        count = numbers.counted(len(rest), "row", "rows")
        more = "more " if changed else ""
        yield from paragraph(
            f"{count} {more}without a change that was shown: {words.summary(rest)}"
        )
        yield from _undecided(rest)


def _some(blocks: Sequence[Sequence[str]]) -> Iterator[str]:
    for block in blocks[:_MOST]:
        yield from block
    if len(blocks) > _MOST:
        yield f"    and {len(blocks) - _MOST} more; --json has all"


def _table(rows: Sequence[Compared]) -> Iterator[str]:
    """A block per work; verdicts that do not fit stand beneath their row."""
    shown = rows[:_MOST]
    groups = phrases.grouped((row.pair.work, row) for row in shown)
    titles = ("row", *words.TITLES)
    cells = {id(row): (row.pair.name, *words.cells(row)) for row in shown}
    widths = [
        max(len(titles[place]), *(len(line[place]) for line in cells.values()))
        for place in range(5)
    ]
    yield _joined(titles, widths)
    for work, members in groups.items():
        yield work
        for row in members:
            line = _joined((f" {cells[id(row)][0]}", *cells[id(row)][1:]), widths)
            if len(line) <= WIDTH:
                yield line
            else:
                yield _joined((f" {cells[id(row)][0]}", *cells[id(row)][1:5]), widths)
                yield from beneath(cells[id(row)][5])
    if len(rows) > len(shown):
        yield f"and {len(rows) - len(shown)} more rows that changed; --markdown and --json have all"
    yield from paragraph(words.LEGEND)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:<{width + 1}}" for cell, width in zip(cells, widths, strict=False)]
    return _GAP.join([*padded, *cells[len(widths) :]]).rstrip()


def _undecided(rows: Sequence[Compared]) -> Iterator[str]:
    """What the undecided rows could have shown, and what would show more."""
    reasons = phrases.grouped(
        (row.timing.why, row) for row in rows if words.is_open(row) and row.timing.why
    )
    for why, members in reasons.items():
        yield from beneath(f"{len(members)} undecided: {why}")
    timings = [row.timing for row in rows if words.is_open(row) and row.timing.detectable]
    if timings:
        least, most = (
            numbers.percent(end(timing.detectable for timing in timings if timing.detectable))
            for end in (min, max)
        )
        span = least if least == most else f"{least} to {most}"
        target = numbers.percent(timings[0].target)
        known = [timing.replicates for timing in timings if timing.replicates]
        more = len(known) == len(timings) and max(known) > min(timings[0].old, timings[0].new)
        advice = f"; {max(known)} replicates a side would show {target}" if more else ""
        yield from beneath(
            f"{len(timings)} undecided: a change of {span} would be shown in 80 % of such "
            f"comparisons{advice}"
        )
