"""The device work and the kernels of each mode compared with plain eager's."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.derive.fusion import Pair, references_of, work_of
from modescope.analysis.derive.select import trusted
from modescope.analysis.figures.draw.canvas import MOST_ROWS, SMALL, Entry, Panel, and_more, stacked
from modescope.analysis.figures.draw.dots import duration_axis
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.columns import FUSION, KERNELS, NAMING
from modescope.analysis.format.tables import Table
from modescope.bench.stats import estimates
from modescope.bench.stats.intervals import of_columns

_FOOT = "circle: plain eager with the same grad axis; numbers at the ends: kernels per call"

_TITLES = {
    "faster": "less work than plain eager",
    "slower": "more work than plain eager",
    "equivalent": f"equal work within ±{numbers.whole_percent(estimates.MARGIN)}",
    "inconclusive": "undecided by the intervals",
}


def pairs(section: pd.DataFrame) -> list[Pair]:
    """The modes of a SECTION whose fusion gain is known, in the order of figures."""
    references = references_of(phrases.as_rows(trusted(section)))
    return [
        Pair(row, references[work_of(row)], of_columns(row, "fusion_gain"))
        for row in sorted(phrases.as_rows(section), key=style.order)
        if row["fusion_gain"] is not None
    ]


def draw(section: pd.DataFrame) -> Figure | None:
    """A dumbbell for each mode of a SECTION whose fusion gain is known; None if none is.

    It spans from plain eager's work to the mode's; the kernel counts stand at both ends.
    """
    known = pairs(section)
    if not known:
        return None
    shown = known[:MOST_ROWS]
    entries = [Entry(phrases.variant(p.row), numbers.ratio(p.gain), p.row) for p in shown]
    longest_s = max(max(pair.row["work_s"], pair.reference_work_s) for pair in shown)
    foot = f"{and_more(_FOOT, len(known) - len(shown))}\n{phrases.work(known[0].row)}"
    with matplotlib.rc_context(style.RC):
        stack = stacked([Panel("Device work of a call", entries)], foot)
        (axes,) = stack.axes
        axes.set_xlim(0, longest_s * 1.12)
        duration_axis(axes, logarithmic=False)
        for place, pair in enumerate(shown):
            _dumbbell(axes, place, pair)
    return stack.figure


def _dumbbell(axes: Axes, place: int, pair: Pair) -> None:
    colour = style.family(pair.row).colour
    ends = (pair.row["work_s"], pair.reference_work_s)
    axes.plot(ends, (place, place), linewidth=2, color=colour, solid_capstyle="butt")
    axes.plot(ends[1], place, "o", color=style.EAGER.colour, markersize=6.5)
    axes.plot(ends[0], place, style.marker(pair.row), color=colour, markersize=6.5)
    leftwards = -1 if ends[0] <= ends[1] else 1
    rows = ((ends[0], pair.row, leftwards), (ends[1], pair.reference, -leftwards))
    for end_s, row, side in rows:
        if row["kernels"] is not None:
            axes.annotate(numbers.count(row["kernels"]), (end_s, place), (7 * side, 0),
                          textcoords="offset points", va="center", size=SMALL,
                          ha="left" if side > 0 else "right")  # fmt: skip


def caption(section: pd.DataFrame) -> str | None:
    """The modes that do less work than plain eager, and their gain; None where unknown."""
    known = pairs(section)
    if not known:
        return None
    modes = phrases.grouped(
        (
            estimates.verdict(pair.gain) or "inconclusive",
            f"{phrases.variant(pair.row)} ({_gain(pair)})",
        )
        for pair in known
    )
    sentence = "; ".join(
        f"{title}: {', '.join(modes[name])}" for name, title in _TITLES.items() if name in modes
    )
    return f"{sentence[0].upper()}{sentence[1:]}."


def _gain(pair: Pair) -> str:
    parts = [numbers.ratio(pair.gain)]
    counts = pair.row["kernels"], pair.reference["kernels"]
    if None not in counts:
        own = numbers.counted(counts[0], "kernel", "kernels")
        parts.append(f"{own} instead of {numbers.count(counts[1])}")
    if (beyond := pair.row["launch_gain"]) is not None:
        overhead = "launching" if phrases.on_cuda(pair.row) else "dispatch"
        alone = pair.row["fusion_speedup"]
        work = f"{numbers.factor(alone)} from {'more' if alone < 1 else 'less'} work"
        parts.append(f"speedup {work}, {numbers.factor(beyond)} from {overhead}")
    return ", ".join(parts)


def table(section: pd.DataFrame) -> Table:
    """The work of each mode and of eager."""
    titles = (*(c.title for c in NAMING), "work", "eager's work", "kernels", "eager's kernels",
              "fusion gain [95 %]", "speedup from work", "launch gain")  # fmt: skip
    return Table("Work", titles, len(NAMING), tuple(_cells(pair) for pair in pairs(section)))


def _cells(pair: Pair) -> tuple[str, ...]:
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


FIGURE = FigureKind(
    "fusion", "Device work and kernels", "device work and kernels of each mode and of eager",
    draw, caption, table,
)  # fmt: skip
