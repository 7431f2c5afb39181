"""The table of figures: what draws each, what reads it, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis import activations as saved
from analysis import (
    fusion_reading,
    grids,
    plotted,
    plotted_training,
    readings,
    training_reading,
    verdicts,
)
from analysis import memory as made_of
from analysis import waterfall as steps
from analysis.plots.activations import activations
from analysis.plots.canvas import inline, on_paper, svg
from analysis.plots.forest import forest
from analysis.plots.fusion import fusion
from analysis.plots.heatmap import heatmap
from analysis.plots.latency import latency
from analysis.plots.memory import memory
from analysis.plots.overhead import overhead
from analysis.plots.scaling import scaling
from analysis.plots.slopes import slopes
from analysis.plots.training import parts
from analysis.plots.waterfall import waterfall
from analysis.series import Series
from analysis.tables import Table


@dataclass(frozen=True)
class Kind:
    """A kind of figure. Each function takes a SECTION, the grids of a FAMILY or a series.

    `draw` returns None where there is nothing to show; only then may the others fail.
    """

    name: str  # of its files
    title: str  # in pages, and its heading in docs/how-to-read-a-report.md
    draw: Callable[[Any], Figure | None]
    read: Callable[[Any], str | None]  # what it shows, decided on intervals
    numbers: Callable[[Any], Table]
    alt: str


OF_SECTION = (
    Kind("speedup", "Speedup", forest, verdicts.reading, plotted.speedups,
         "speedups with their intervals, a row per mode"),
    Kind("latency", "Latency", latency, readings.latency, plotted.latencies,
         "latencies with their intervals and tails, a row per mode"),
    Kind("overhead", "Where the time of a call goes", overhead, readings.overhead,
         plotted.overheads, "bars of dispatch and work, a row per mode"),
    Kind("parts", "Parts of a training step", parts, training_reading.reading,
         plotted_training.parts, "bars of forward, backward and optimizer over the undivided step"),
    Kind("waterfall", "From eager to the floor", waterfall, steps.reading, plotted.waterfalls,
         "what each mode takes off a call, down to the floor"),
    Kind("fusion", "Device work and kernels", fusion, fusion_reading.reading, plotted.fusions,
         "device work against that of eager, with kernel counts"),
    Kind("memory", "Memory", memory, made_of.reading, plotted.memories,
         "bars of what the memory of a call is made of, a row per mode"),
)  # fmt: skip
OF_FAMILY = (
    Kind("heatmap", "Speedup by mode and size", heatmap, grids.reading, plotted.speedup_grid,
         "a grid of speedups, a row per mode and a column per size"),
)  # fmt: skip
OF_SERIES = (
    Kind("scaling", "Latency and overhead over a size", scaling, readings.bounds, plotted.sizes,
         "latency and overhead over a size, a line per mode"),
    Kind("saved", "Saved for backward over a size", activations, saved.reading,
         plotted_training.saved_activations, "bytes saved over a size, a line per mode"),
)  # fmt: skip
OF_CHAIN = (
    Kind("slope", "Overhead per operator", slopes, readings.slopes, plotted.slopes,
         "the overhead of one more operator, a row per mode"),
)  # fmt: skip
KINDS = (*OF_SECTION, *OF_FAMILY, *OF_SERIES, *OF_CHAIN)


@dataclass(frozen=True)
class Picture:
    """A figure as its file and as part of a page, with what goes beneath it."""

    kind: Kind
    file: str
    svg: str
    inline: Markup
    reading: str | None
    numbers: Table


def of_section(section: pd.DataFrame, name: str) -> Iterator[Picture]:
    """The figures of one SECTION; `name` sets their files apart."""
    return _drawn(OF_SECTION, section, name)


def of_family(family: pd.DataFrame, name: str) -> Iterator[Picture]:
    """The figures of one FAMILY as a whole."""
    return _drawn(OF_FAMILY, grids.grids(family), name)


def of_series(found: Series, name: str) -> Iterator[Picture]:
    """The figures of one series."""
    return _drawn((*OF_SERIES, *(OF_CHAIN if found.is_chain else ())), found, name)


def _drawn(kinds: tuple[Kind, ...], subject: Any, name: str) -> Iterator[Picture]:
    for kind in kinds:
        if (figure := kind.draw(subject)) is not None:
            drawn = svg(figure, f"{kind.name}-{name}")
            yield Picture(
                kind, f"{kind.name}-{name}.svg", on_paper(drawn), Markup(inline(drawn)),
                kind.read(subject), kind.numbers(subject),
            )  # fmt: skip
