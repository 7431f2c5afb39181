"""The device work and the kernels of each mode, beside plain eager's."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.derive.fusion import Pair, references_of, work_of
from modescope.analysis.derive.select import trusted
from modescope.analysis.figures import theme
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import FUSION, KERNELS, NAMING
from modescope.analysis.format.tables import Table
from modescope.bench.stats.estimates import stored_ratio

CAPTION = (
    "The ring is plain eager with the same grad axis, the marker the mode: further left is less "
    "work. The numbers are eager's work ÷ the mode's, with their 95 % interval."
)


def pairs(section: pd.DataFrame) -> list[Pair]:
    """The modes of a SECTION whose fusion gain is known, in the order of figures."""
    references = references_of(phrases.as_rows(trusted(section)))
    return [
        Pair(row, references[work_of(row)], stored_ratio(row, "fusion_gain"))
        for row in theme.charted(section)
        if row["fusion_gain"] is not None
    ]


def draw(section: pd.DataFrame) -> Figure | None:
    """A panel of work and one of kernels per precision; None if no mode's gain is known."""
    known = {pair.row["run_id"]: pair for pair in pairs(section)}
    if not known:
        return None
    rows = [pair.row for pair in known.values()]
    panels = theme.panels("Device work", rows, cells.fusion_gain)
    counted = any(None not in _kernels(pair) for pair in known.values())
    more = theme.beyond(len(rows), panels)
    figure, grid = theme.sheet(panels, phrases.work(rows[0]), more, columns=2 if counted else 1)
    for line, panel in zip(grid, panels, strict=True):
        members = [known[row["run_id"]] for row in panel.rows]
        times = [(pair.reference_work_s, pair.row["work_s"]) for pair in members]
        scale, unit = numbers.time_unit(max(map(max, times)))
        _dumbbells(line[0], members, [(a / scale, b / scale) for a, b in times])
        theme.linear_ticks(line[0], max(map(max, times)) / scale, unit, most=5)
        if counted:
            counts = list(map(_kernels, members))
            _dumbbells(line[1], members, counts)
            most = max((count for both in counts for count in both if count), default=1)
            theme.linear_ticks(line[1], most, "per call", most=5)
            line[1].set_title("Kernels")
    return figure


def _kernels(pair: Pair) -> tuple[float | None, float | None]:
    return pair.reference["kernels"], pair.row["kernels"]


def _dumbbells(
    axes: Axes, members: Sequence[Pair], ends: Sequence[tuple[float | None, float | None]]
) -> None:
    """A line per row from plain eager to the mode; none where one of them is unknown."""
    known = [place for place, both in enumerate(ends) if None not in both]
    frame = pd.DataFrame(
        [(ends[place][side], place, side) for place in known for side in (0, 1)],
        columns=["value", "place", "side"],
    ).astype({"value": "float64"})
    colours = {place: style.family(members[place].row).colour for place in known}
    drawn = {"data": frame, "x": "value", "y": "place", "legend": False, "ax": axes}
    sns.lineplot(**drawn, units="place", estimator=None, orient="y", hue="place",
                 palette=colours, linewidth=2)  # fmt: skip
    drawn["data"] = frame[frame["side"] == 0]
    sns.scatterplot(**drawn, facecolor="none", edgecolor=style.EAGER.colour, linewidth=1.8, s=48,
                    zorder=3)  # fmt: skip
    drawn["data"] = frame[frame["side"] == 1]
    sns.scatterplot(**drawn, hue="place", style="place", palette=colours, s=48, linewidth=0,
                    markers={place: style.marker(members[place].row) for place in known},
                    zorder=4)  # fmt: skip
    axes.set(ylabel="", ylim=(len(members) - 0.5, -0.5))


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
