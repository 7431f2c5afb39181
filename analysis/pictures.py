"""Which figures a report has, each with the sentence beneath it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis import activations as saved
from analysis import fusion_reading, readings, training_reading, verdicts
from analysis import memory as made_of
from analysis import waterfall as steps
from analysis.plots.activations import activations
from analysis.plots.canvas import svg
from analysis.plots.forest import forest
from analysis.plots.fusion import fusion
from analysis.plots.latency import latency
from analysis.plots.memory import memory
from analysis.plots.overhead import overhead
from analysis.plots.scaling import scaling
from analysis.plots.slopes import slopes
from analysis.plots.training import parts
from analysis.plots.waterfall import waterfall
from analysis.series import Series


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file, what it shows in words, and the sentence beneath it."""

    file: str
    alt: str
    svg: str
    inline: Markup
    reading: str | None


# kind, which names the file -> what draws the figure, what reads it, what it shows
Kinds = dict[str, tuple[Callable[[Any], Figure | None], Callable[[Any], str | None], str]]
_OF_SECTION: Kinds = {
    "speedup": (forest, verdicts.reading, "speedups with their intervals"),
    "latency": (latency, readings.latency, "latencies with their intervals"),
    "waterfall": (waterfall, steps.reading, "what each mode takes off a call, down to the floor"),
    "overhead": (overhead, readings.overhead, "where the time of one call goes"),
    "parts": (parts, training_reading.reading, "the parts of a training step"),
    "fusion": (
        fusion,
        fusion_reading.reading,
        "device work against that of eager, with kernel counts",
    ),
    "memory": (memory, made_of.reading, "what the memory of a call is made of"),
}
_OF_SERIES: Kinds = {
    "scaling": (scaling, readings.bounds, "latency and overhead over a size"),
    "saved": (activations, saved.reading, "what is saved for backward over a size"),
}
_OF_CHAIN: Kinds = {"slope": (slopes, readings.slopes, "overhead per operator")}
KINDS = (*_OF_SECTION, *_OF_SERIES, *_OF_CHAIN)


def of_section(section: pd.DataFrame, name: str) -> Iterator[Picture]:
    """The figures of one SECTION; `name` sets their files apart."""
    return _drawn(_OF_SECTION, section, name)


def of_series(found: Series, name: str) -> Iterator[Picture]:
    """The figures of one series."""
    return _drawn(_OF_SERIES | (_OF_CHAIN if found.is_chain else {}), found, name)


def _drawn(kinds: Kinds, subject: Any, name: str) -> Iterator[Picture]:
    for kind, (draw, read, alt) in kinds.items():
        if (figure := draw(subject)) is not None:
            whole, inline = svg(figure, inline=False), svg(figure, inline=True)
            yield Picture(f"{kind}-{name}.svg", alt, whole, Markup(inline), read(subject))
