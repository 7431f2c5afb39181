"""The study as all parts of a report see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from modescope.analysis.causes.types import Finding
from modescope.analysis.derive.select import SECTION, row_parts
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend.types import Recommendation

LARGE = 200  # rows: a browser lays out a longer page as the reader scrolls
MOST_LISTED = 1000  # rows per page: more make a browser slow


@dataclass(frozen=True)
class Study:
    """A study's derived rows, in reading order, and the recommendations for them."""

    name: str  # of its folder
    folder: str  # as an argument of a command
    rows: pd.DataFrame
    answers: tuple[Recommendation, ...]
    unread: Mapping[str, str]  # unreadable files, each with the reason
    causes: Mapping[str, Sequence[Finding]] = field(default_factory=dict)  # by run_id
    traces: Path | None = None  # the folder of its traces, beside the report; None: out of reach

    @cached_property
    def has_letters(self) -> bool:
        """Whether rows come from several environments, which are then named by letters."""
        return bool(self.rows["environment"].nunique() > 1)

    @cached_property
    def has_caches(self) -> bool:
        """Whether rows differ in their compiler cache (cold or warm)."""
        return bool(self.rows["compile_cache"].nunique() > 1)

    @cached_property
    def listed(self) -> Sequence[Row]:
        """The rows that a page lists: all, or MOST_LISTED with the best ones of every SECTION."""
        if len(self.rows) <= MOST_LISTED:
            return phrases.as_rows(self.rows)
        rank = self.rows.groupby(list(SECTION), dropna=False, sort=False).cumcount()
        kept = rank.sort_values(kind="stable").index[:MOST_LISTED]
        return phrases.as_rows(self.rows.loc[sorted(kept)])

    @cached_property
    def _listed_ids(self) -> frozenset[str]:
        return frozenset(row["run_id"] for row in self.listed)

    def anchor(self, row: Row) -> str | None:
        """The id of a row's command and raw data on a page; None if the page does not list it."""
        return f"run-{row['run_id']}" if row["run_id"] in self._listed_ids else None

    @property
    def unlisted(self) -> int:
        """The number of rows that a page does not list."""
        return len(self.rows) - len(self.listed)

    def listed_sections(self) -> list[list[Row]]:
        """The listed rows of each SECTION."""
        return row_parts(self.listed, SECTION)

    def place(self, row: Row) -> str:
        """Where a row was measured; with its environment's letter if there are several."""
        return phrases.place(row, self.has_letters)
