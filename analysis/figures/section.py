"""Shared by the figures of a section: the rows that they show, and a table of those."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from modescope.analysis.derive.select import trusted
from modescope.analysis.format import phrases, style
from modescope.analysis.format.columns import NAMING, Column, distinguishing
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table, of_columns


def charted(section: pd.DataFrame) -> list[Row]:
    """The trusted rows of a SECTION, in the order of figures."""
    return sorted(phrases.as_rows(trusted(section)), key=style.order)


def table_of(title: str, section: pd.DataFrame, columns: Sequence[Column]) -> Table:
    """These columns of the charted rows."""
    rows = charted(section)
    return of_columns(title, rows, (*NAMING, *distinguishing(rows)), columns)
