"""The first pass over calls of different sizes: time of each call, with those that compile."""

from __future__ import annotations

from functools import partial

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.derive.mix import Mix, mix_of
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.columns import Column
from modescope.analysis.format.phrases import Row

_HIGH = 1.05  # inches: of a panel
_UNITS = [1e-9, 1e-6, 1e-3, 1.0, 1e3]  # seconds: ticks of a panel that spans many powers of ten


def _draw(section: pd.DataFrame) -> Figure | None:
    """Draws the calls of the first pass, a panel per mode; None where calls do not vary."""
    known = [(row, mix) for row in theme.charted(section) if (mix := mix_of(row)) and mix.first_s]
    if not known:
        return None
    figure = Figure((theme.WIDTH, _HIGH * len(known) + 0.5), layout="constrained")
    grid = figure.subplots(len(known), squeeze=False, sharex=True, sharey=True)
    for (axes,), (row, mix) in zip(grid, known, strict=True):
        axes.set(yscale="log", title=phrases.variant(row))
        _points(axes, row, mix)
    tick = partial(numbers.tick, unit_of=numbers.time_unit)
    for (axes,) in grid:
        theme.log_ticks(axes.yaxis, _HIGH - 0.4, tick, [*theme.DECIMAL, _UNITS])
    grid[-1][0].set_xlabel("call")
    theme.small_print(figure, phrases.work(known[0][0]))
    return figure


def _points(axes: Axes, row: Row, mix: Mix) -> None:
    numbered = range(1, len(mix.first_s) + 1)
    if (usual := mix.steady_s(side=1)) is not None:
        sns.lineplot(
            x=numbered, y=usual, estimator=None, color=style.FADED, linewidth=1, ax=axes
        )  # fmt: skip
    compiling = {one.number for one in mix.compiles}
    for marker, size, wanted in ((".", 18, False), ("X", 42, True)):
        calls = [number for number in numbered if (number in compiling) is wanted]
        sns.scatterplot(
            x=calls, y=[mix.first_s[number - 1] for number in calls], marker=marker, s=size,
            color=style.family(row).colour, linewidth=0, ax=axes,
        )  # fmt: skip
    if mix.gave_up_at is not None:
        axes.axvline(mix.gave_up_at - 0.5, color=style.INK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.grid(visible=True, axis="both")
    axes.set(xlabel="", ylabel="", xlim=(0, len(mix.first_s) + 1))


def _compiles(row: Row) -> str:
    mix = mix_of(row)
    return numbers.UNKNOWN if mix is None else f"{len(mix.compiles)}"


def _eager(row: Row) -> str:
    mix = mix_of(row)
    if mix is None or mix.gave_up_at is None:
        return numbers.UNKNOWN
    return f"{len(mix.eager)} of {len(mix.calls)} calls, since call {mix.gave_up_at}"


def _per_call(row: Row) -> str:
    return numbers.duration(
        row["latency_paired_s"] and row["latency_paired_s"] / phrases.calls_of_a_step(row)
    )


FIRST_PASS = FigureKind(
    "first-pass",
    "Calls of different sizes",
    "time of each call of the first pass, a panel per mode",
    "Each marker is a call of the first pass, a cross one in which torch compiled; the grey line "
    "is the baseline at the same size. At a dashed line torch gives up compiling new sizes.",
    _draw,
    theme.charted_table("Passes", (
        Column("first pass", lambda row: numbers.duration(row["first_call_s"]), ">"),
        Column("later passes", lambda row: numbers.duration(row["latency_paired_s"]), ">"),
        Column("a call of them", _per_call, ">"),
        Column("compiling calls", _compiles, ">"),
        Column("runs in eager", _eager),
    )),
)  # fmt: skip
