"""The numbers that the figures of training show, as tables."""

from __future__ import annotations

import pandas as pd

from analysis import numbers, style, words
from analysis import training as made_of
from analysis.activations import Saved, saved
from analysis.columns import NAMING, told_by
from analysis.series import Series
from analysis.tables import Table
from analysis.training import PARTS


def parts(section: pd.DataFrame) -> Table:
    """Each part of a step beside the step itself, and how the parts add up."""
    rows = made_of.charted(section)
    used = [name for name in PARTS if any(row[f"{name}_s"] is not None for row in rows)]
    naming = (*NAMING, *told_by(rows))
    lines = tuple(
        (
            *(column.cell(row) for column in naming),
            *(numbers.estimate(made_of.estimate(row, name)) for name in used),
            words.latency(row),
            numbers.share(row["parts_ratio"], 1),
        )
        for row in rows
    )
    named = (f"{style.PARTS[name].name} [95 %]" for name in used)
    titles = (*(c.title for c in naming), *named, "the step, undivided [95 %]", "parts of the step")
    return Table("Parts", titles, len(naming), lines)


def saved_activations(found: Series) -> Table:
    """What each mode that saves something saves at each size."""
    lines = saved(found)
    sizes = sorted({size for one in lines for size in one.sizes})
    titles = ("mode", *(f"{found.size} {size}" for size in sizes))
    return Table("Saved bytes", titles, 1, tuple(_saved(one, sizes) for one in lines))


def _saved(one: Saved, sizes: list[int]) -> tuple[str, ...]:
    at = dict(zip(one.sizes, one.saved_bytes, strict=True))
    return one.line.name, *(numbers.size(at.get(size)) for size in sizes)
