"""`FigureKind`, which each figure's file exports, and `Picture`, a drawn figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from markupsafe import Markup
from matplotlib.figure import Figure

from modescope.analysis.figures.draw.canvas import inline, on_paper, svg
from modescope.analysis.format.tables import Table

Topic = TypeVar("Topic")  # what a figure shows: a SECTION, the grids of a FAMILY or a Series


@dataclass(frozen=True)
class FigureKind(Generic[Topic]):
    """A kind of figure. All its functions take the topic.

    `draw` returns None where there is nothing to show; only then may the others fail.
    """

    name: str  # prefix of its files
    title: str  # in pages, and its heading in docs/how-to-read-a-report.md
    alt: str  # a short description for screen readers
    draw: Callable[[Topic], Figure | None]
    caption: Callable[[Topic], str | None]  # the result in words, judged by intervals
    table: Callable[[Topic], Table]  # the numbers drawn


@dataclass(frozen=True)
class Picture:
    """A drawn figure as a file and as part of a page, with its caption and table."""

    kind: FigureKind[Any]
    file: str
    svg: str
    inline: Markup
    caption: str | None
    table: Table


def pictures(kinds: Iterable[FigureKind[Topic]], subject: Topic, name: str) -> Iterator[Picture]:
    """The non-empty figures, each drawn on demand; `name` is part of the file names."""
    for kind in kinds:
        if (figure := kind.draw(subject)) is not None:
            drawn = svg(figure, f"{kind.name}-{name}")
            yield Picture(
                kind, f"{kind.name}-{name}.svg", on_paper(drawn), Markup(inline(drawn)),
                kind.caption(subject), kind.table(subject),
            )  # fmt: skip
