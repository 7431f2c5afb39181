"""A comparison as a notebook shows it: verdict, table and the figure of speedups.

Colours are those of the notebook, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from modescope.analysis.figures import speedup
from modescope.analysis.figures.figure import Picture, pictures
from modescope.analysis.format import phrases
from modescope.analysis.recommend.merge_sizes import Advice
from modescope.analysis.rows.select import SECTION, parts
from modescope.bench.api.listing import listing
from modescope.bench.text.markup import html_engine


def html(frame: pd.DataFrame, advice: Sequence[Advice], failure: str | None, study: Path) -> str:
    """The HTML, without a page around it; `failure` stands in place of `advice`."""
    works = [
        (listing(phrases.as_rows(work)), _picture(work, f"{study.name}-{number}"))
        for number, work in enumerate(parts(frame, SECTION), start=1)
    ]
    template = html_engine("modescope.bench.api").get_template("comparison.html.j2")
    return template.render(works=works, advice=advice, failure=failure, study=study)


def _picture(work: pd.DataFrame, name: str) -> Picture | None:
    """The figure; None without a row that has an interval."""
    return next(pictures([speedup.FIGURE], work, name), None)
