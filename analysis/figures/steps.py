"""Figure of the measured steps from eager to a compiled mode: each begins where the last ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from modescope.analysis.derive import steps
from modescope.analysis.derive.steps import Step
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind, Panel
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import Column, Table, naming, table_of
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required, value_of
from modescope.bench.records.gap_steps import FUSION, LADDER
from modescope.bench.stats.estimates import Estimate, ends

MOST_PANELS = 8
"""As many rows are drawn, those with the largest gap, as each has a panel."""

_SAVES, _ADDS, _UNSURE = "#7b68c8", "#cc6b12", style.FADED
_WHOLE: dict[str, Any] = {"facecolor": "none", "edgecolor": style.INK, "linewidth": 1.0}


@dataclass(frozen=True)
class Bar:
    """What a step takes off, or adds to, the time at which the one before it ended.

    `begin` and `share` are shares of eager's call; `share` is what is saved.
    """

    name: str
    begin: float
    share: Estimate
    is_sure: bool  # whether it is larger than the control
    thickness: float = 0.72

    @property
    def end(self) -> float:
        """Where the bar ends."""
        return self.begin - self.share.value

    @property
    def colour(self) -> str:
        """By what the step does."""
        return _UNSURE if not self.is_sure else _SAVES if self.share.value > 0 else _ADDS


def bars_of(row: Row) -> list[Bar]:
    """Returns the bars between those of eager and the mode, from the top; empty without steps."""
    bars, begin, sure = list[Bar](), 1.0, steps.named(row)
    for step in steps.steps(row):
        bars.append(bar := Bar(_name(step), begin, step.share, step in sure))
        begin = bar.end
        fused: Estimate | None = value_of(row, "step_fusion")
        if step.kind.name == "code" and fused is not None and fused.low is not None:
            beyond = steps.exceeds(fused, steps.least(row))
            bars.append(Bar(f"of it {FUSION.saves}", begin + fused.value, fused, beyond, 0.36))
    return bars


def _name(step: Step) -> str:
    subject = step.kind.saves if step.share.value > 0 else step.kind.adds
    return f"other operators, with {subject}" if step.unlike else subject


def stepped(section: pd.DataFrame) -> list[Row]:
    """Returns the charted rows of a section that have measured steps."""
    return [row for row in theme.charted(section) if steps.steps(row)]


def drawn(rows: Sequence[Row]) -> list[Row]:
    """Returns the MOST_PANELS of `rows` with the largest gap, in the order of `rows`."""
    widest = sorted(rows, key=lambda row: -abs(required(row["steps_gap"]).value))
    kept = {row["run_id"] for row in widest[:MOST_PANELS]}
    return [row for row in rows if row["run_id"] in kept]


def _draw(section: pd.DataFrame) -> Figure | None:
    rows = stepped(section)
    if not rows:
        return None
    shown = drawn(rows)
    bars = [bars_of(row) for row in shown]
    titles = [", ".join(column.cell(row) for column in naming(rows)) for row in shown]
    panels = [
        Panel(
            f"From eager to {title}",
            [row] * (len(members) + 2),
            ["eager", *(bar.name for bar in members), phrases.mode(row)],
            ["100 %", *(_text(bar.share) for bar in members), _mode_text(row)],
        )
        for title, row, members in zip(titles, shown, bars, strict=True)
    ]
    hidden = len(rows) - len(shown)
    more = f"; {hidden} more rows, whose gap is smaller, are in the table only" if hidden else ""
    work = f"{phrases.work(rows[0])}{more}"
    figure, grid = theme.sheet(panels, work, sum(len(panel.rows) for panel in panels))
    for (axes,), row, members in zip(grid, shown, bars, strict=True):
        _waterfall(axes, members, row)
    theme.legend(figure, _handles([bar for members in bars for bar in members]))
    return figure


def _waterfall(axes: Axes, bars: Sequence[Bar], row: Row) -> None:
    """Draws eager at the top, the bars below it, each from the end of the last, then the mode."""
    gap, control = required(row["steps_gap"]), steps.least(row)
    last = len(bars) + 1
    for place, bar in enumerate(bars, 1):
        axes.barh(
            place, 2 * control * 100, left=(bar.begin - control) * 100, height=1,
            color=style.FADED, alpha=0.3, linewidth=0, zorder=1,
        )  # fmt: skip
        axes.barh(
            place, -bar.share.value * 100, left=bar.begin * 100, height=bar.thickness,
            color=bar.colour, linewidth=0, zorder=2,
        )  # fmt: skip
        _whisker(axes, place, bar.begin, bar.share)
    axes.barh(0, 100, height=0.72, zorder=2, **_WHOLE)
    axes.barh(last, (1 - gap.value) * 100, height=0.72, zorder=2, **_WHOLE)
    _whisker(axes, last, 1.0, gap)
    stairs = [(0, 1.0), *((place, bar.end) for place, bar in enumerate(bars, 1)
                          if bar.thickness > 0.5), (last, None)]  # fmt: skip
    for (place, level), (below, _) in pairwise(stairs):
        axes.plot([required(level) * 100] * 2, [place, below], color=style.FADED, linewidth=0.7,
                  zorder=1.5)  # fmt: skip
    reached = [1 - ends(gap)[0], *(bar.begin - ends(bar.share)[0] for bar in bars)]
    theme.linear_ticks(axes, 100 * max(1.0, *reached), "% of a call of eager", most=6)
    axes.set_ylim(last + 0.5, -0.5)


def _whisker(axes: Axes, place: int, begin: float, share: Estimate) -> None:
    axes.plot([(begin - end) * 100 for end in ends(share)], [place] * 2, color=style.INK,
              linewidth=1.3, solid_capstyle="butt", zorder=3)  # fmt: skip


def _handles(bars: Sequence[Bar]) -> list[Any]:
    names = {_SAVES: "saves time", _ADDS: "adds time", _UNSURE: "cannot be told from none"}
    used = {bar.colour for bar in bars}
    patches = [Patch(color=colour, label=name) for colour, name in names.items() if colour in used]
    band = Patch(color=style.FADED, alpha=0.3, label="what compiling again changes")
    return [*patches, band, Line2D([], [], color=style.INK, linewidth=1.3, label="95 % interval")]


def _text(share: Estimate) -> str:
    """Formats a step in the direction of its bar: `45 % [44, 46] saved`."""
    low, high = ends(share)
    if share.value > 0:
        return f"{numbers.share_interval(share)} saved"
    return f"{numbers.share_interval(Estimate(-share.value, -high, -low))} added"


def _mode_text(row: Row) -> str:
    gap = required(row["steps_gap"])
    low, high = ends(gap)
    return numbers.share_interval(Estimate(1 - gap.value, 1 - high, 1 - low))


def _control(row: Row) -> str:
    return numbers.percent(steps.least(row)) if row["steps_control"] else numbers.UNKNOWN


def _rest(row: Row) -> str:
    rest = row["steps_rest"]
    return numbers.UNKNOWN if rest is None else numbers.percent(rest)


def _tried(row: Row) -> str:
    best = steps.best_trial(row)
    return f"{best[0].name} {numbers.factor_interval(best[1])}" if best else numbers.UNKNOWN


def _share(title: str, name: str) -> Column:
    return Column(title, lambda row: cells.share(row, name), optional=True)


def _table(section: pd.DataFrame) -> Table:
    rows = stepped(section)
    return table_of("Steps", rows, naming(rows), (
        *(_share(kind.name, f"step_{kind.name}") for kind in (*LADDER, FUSION)),
        _share("gap", "steps_gap"),
        Column("up to the control", _control),
        Column("rest", _rest),
        Column("first", lambda row: row["measured_cause"] or numbers.UNKNOWN),
        Column("best change tried", _tried),
    ))  # fmt: skip


STEPS = FigureKind(
    "steps",
    "Steps from eager to the mode",
    "bars from eager to a compiled mode, each beginning where the last ended",
    "Variants between eager and the mode ran in the same rounds, and each bar is what one thing "
    "changes: to the left it saves time, to the right it adds some. A grey bar cannot be told from "
    "none, as it is not surely wider than the band, by which the mode differs from itself.",
    _draw,
    _table,
)
