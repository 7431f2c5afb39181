"""A comparison as a notebook shows it: verdict, table and the figure of speedups.

Colours are those of the notebook, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from modescope.analysis.figures import speedup
from modescope.analysis.figures.figure import Picture, pictures
from modescope.analysis.format import phrases
from modescope.analysis.rows.select import SECTION, parts
from modescope.bench.text.markup import html_engine

if TYPE_CHECKING:
    from modescope.bench.api.comparison import Comparison


def html(of: Comparison) -> str:
    """The HTML, without a page around it."""
    template = html_engine("modescope.bench.api").get_template("comparison.html.j2")
    return template.render(of=of, sections=list(_sections(of)))


def _sections(of: Comparison) -> Iterator[dict[str, Any]]:
    from modescope.bench.api.comparison import heading, table

    for number, section in enumerate(parts(of.frame, SECTION), start=1):
        rows = phrases.as_rows(section)
        headers, measured, others = table(rows)
        yield {
            "title": heading(rows[0]),
            "headers": headers,
            "measured": measured,
            "others": others,
            "picture": _picture(section, f"{of.study.name}-{number}"),
        }


def _picture(section: pd.DataFrame, name: str) -> Picture | None:
    """The figure; None without a row that has an interval."""
    return next(pictures([speedup.FIGURE], section, name), None)
