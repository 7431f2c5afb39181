"""A comparison as a notebook shows it: verdict, table and the figure of speedups.

Colours are those of the notebook, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from modescope.analysis.derive.select import SECTION, parts
from modescope.analysis.figures.registry import SPEEDUP, Picture, pictures
from modescope.analysis.format import phrases
from modescope.analysis.recommend.merge_sizes import Advice
from modescope.bench.api.listing import listing
from modescope.bench.text.markup import html_engine

FITTING = '<svg style="display: block; width: 100%; min-width: 34rem; height: auto"'
"""The beginning of a figure that becomes smaller on a narrow page, up to where it scrolls."""


def html(frame: pd.DataFrame, advice: Sequence[Advice], failure: str | None, study: str) -> str:
    """The HTML, without a page around it; `failure` stands in place of `advice`."""
    works = [
        (listing(phrases.as_rows(work)), _picture(work, f"{study}-{number}"))
        for number, work in enumerate(parts(frame, SECTION), start=1)
    ]
    template = html_engine("modescope.bench.api").get_template("comparison.html.j2")
    return template.render(works=works, advice=advice, failure=failure, study=study)


def _picture(work: pd.DataFrame, name: str) -> Picture | None:
    """The figure; None without a row that has an interval."""
    picture = next(pictures([SPEEDUP], work, name), None)
    if picture is None:
        return None
    return replace(picture, inline=Markup(str(picture.inline).replace("<svg", FITTING, 1)))
