"""The table of a report's parts: one more is an entry here and a template for each kind of page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.page.diagnostics import diagnostics
from analysis.page.figures import chapters
from analysis.page.left_out import left_out
from analysis.page.listing import listing
from analysis.page.runs import runs
from analysis.page.study import Study
from analysis.page.terms import terms
from analysis.page.which import which
from analysis.surroundings import surroundings


@dataclass(frozen=True)
class Part:
    """A part of every page; `name` is its anchor and names its templates.

    `found` is what these print, as the variable `found`; nothing at all leaves the part out.
    """

    name: str
    title: str
    found: Callable[[Study], Any]


FIGURES = "figures"
PARTS = (
    Part("which", "Which mode?", which),
    Part("rows", "All rows", listing),
    Part(FIGURES, "Figures", chapters),
    Part("diagnostics", "Flags and remedies", diagnostics),
    Part("left-out", "Left out", left_out),
    Part("surroundings", "Environment", lambda study: surroundings(study.rows)),
    Part("runs", "Commands and raw data", runs),
    Part("terms", "How to read this", terms),
)


def found(study: Study) -> dict[str, tuple[Part, Any]]:
    """What the parts have to say, by name, in their order."""
    told = ((part, part.found(study)) for part in PARTS)
    return {part.name: (part, answer) for part, answer in told if answer}
