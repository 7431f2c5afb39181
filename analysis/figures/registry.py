"""The table of figures, in the order of a report. A new figure is a file and an entry here.

Only this module and those of the figures import seaborn, which takes two seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from markupsafe import Markup
from matplotlib.figure import Figure

from modescope.analysis.figures import (
    first_pass,
    fusion,
    heatmap,
    memory,
    overhead,
    scaling,
    speedup,
    step_parts,
    theme,
)
from modescope.analysis.format.tables import Table

Topic = TypeVar("Topic")  # what a figure shows: a SECTION, the grids of a FAMILY or a Series


@dataclass(frozen=True)
class FigureKind(Generic[Topic]):
    """A kind of figure. All its functions take the topic.

    `draw` returns None where there is nothing to show; only then may `table` fail.
    """

    name: str  # prefix of its files
    title: str  # in pages, and its heading in docs/how-to-read-a-report.md
    alt: str  # a short description for screen readers
    caption: str  # how to read it
    draw: Callable[[Topic], Figure | None]
    table: Callable[[Topic], Table]  # the numbers drawn


@dataclass(frozen=True)
class Picture:
    """A drawn figure as a file and as part of a page, with its table."""

    kind: FigureKind[Any]
    file: str
    svg: str
    inline: Markup
    table: Table


SPEEDUP = FigureKind(
    "speedup", "Speedup", "speedups with their intervals, a row per mode",
    speedup.CAPTION, speedup.draw, speedup.table,
)  # fmt: skip
OF_SECTION = (  # one work at one size
    SPEEDUP,
    FigureKind(
        "first-pass", "Calls of different sizes", "time of each call of the first pass, by mode",
        first_pass.CAPTION, first_pass.draw, first_pass.table,
    ),
    FigureKind(
        "overhead", "Where the time of a call goes", "bars of overhead and work, a row per mode",
        overhead.CAPTION, overhead.draw, overhead.table,
    ),
    FigureKind(
        "fusion", "Device work and kernels",
        "device work and kernels of each mode and of eager, a row per mode",
        fusion.CAPTION, fusion.draw, fusion.table,
    ),
    FigureKind(
        "memory", "Memory", "bars of the memory of a call by its parts, a row per mode",
        memory.CAPTION, memory.draw, memory.table,
    ),
    FigureKind(
        "parts", "Parts of a training step",
        "bars of forward, backward and optimizer, a row per mode",
        step_parts.CAPTION, step_parts.draw, step_parts.table,
    ),
)  # fmt: skip
OF_GRIDS = (  # one work at all sizes
    FigureKind(
        "heatmap", "Speedup by mode and size",
        "a grid of speedups, a row per mode and a column per size",
        heatmap.CAPTION, heatmap.draw, heatmap.table,
    ),
)  # fmt: skip
OF_SERIES = (  # one work over one size
    FigureKind(
        "scaling", "Latency, overhead and saved activations over a size",
        "latency, overhead and saved bytes over a size, a line per mode",
        scaling.CAPTION, scaling.draw, scaling.table,
    ),
)  # fmt: skip


def pictures(kinds: Iterable[FigureKind[Topic]], subject: Topic, name: str) -> Iterator[Picture]:
    """The non-empty figures, each drawn on demand; `name` is part of the file names."""
    for kind in kinds:
        with theme.look():
            figure = kind.draw(subject)
        if figure is not None:
            drawn = theme.svg(figure, f"{kind.name}-{name}")
            yield Picture(
                kind, f"{kind.name}-{name}.svg", theme.on_paper(drawn),
                Markup(theme.inline(drawn)), kind.table(subject),
            )  # fmt: skip
