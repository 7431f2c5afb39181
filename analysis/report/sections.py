"""The parts of a report. A new part is an entry here and a template for each kind of page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modescope.analysis.report.diagnostics import diagnostics
from modescope.analysis.report.environment import environments
from modescope.analysis.report.figures import chapters
from modescope.analysis.report.left_out import left_out
from modescope.analysis.report.listing import listing
from modescope.analysis.report.ratios import ratios
from modescope.analysis.report.runs import runs
from modescope.analysis.report.study import Study
from modescope.analysis.report.summary import which
from modescope.analysis.report.terms import terms


@dataclass(frozen=True)
class Part:
    """A part of every page; `name` is its anchor and the name of its templates.

    `content` makes the variable `content` of these templates. A part without content is omitted.
    """

    name: str
    title: str
    content: Callable[[Study], Any]


FIGURES = "figures"
PARTS = (
    Part("which", "Which mode?", which),
    Part("rows", "All rows", listing),
    Part("ratios", "Modes against each other", ratios),
    Part(FIGURES, "Figures", chapters),
    Part("diagnostics", "Flags and remedies", diagnostics),
    Part("left-out", "Left out", left_out),
    Part("environment", "Environment", lambda study: environments(study.rows)),
    Part("runs", "Commands and raw data", runs),
    Part("terms", "How to read this", terms),
)


def contents(study: Study) -> dict[str, tuple[Part, Any]]:
    """The parts with content, by name, in the order of the page."""
    every = ((part, part.content(study)) for part in PARTS)
    return {part.name: (part, content) for part, content in every if content}
