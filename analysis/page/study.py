"""What the parts of a report are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import pandas as pd

from analysis import words
from analysis.recommendation import Recommendation
from analysis.rows import SECTION, parts
from analysis.words import Row

LARGE = 200  # rows: a page of more is laid out piece by piece
MOST_PLACES = 3  # on one line
MOST_LISTED = 1000  # rows of a page: more make a browser slow and help nobody


@dataclass(frozen=True)
class Study:
    """A study's derived rows, in the order of reading, and what is recommended for them."""

    name: str  # of its folder
    folder: str  # as a command line would name it
    rows: pd.DataFrame
    answers: tuple[Recommendation, ...]
    unread: Mapping[str, str]  # files that are no run, each with the reason

    @cached_property
    def has_letters(self) -> bool:
        """Whether rows come from several environments, so that a letter tells them apart."""
        return bool(self.rows["environment"].nunique() > 1)

    @cached_property
    def has_caches(self) -> bool:
        """Whether some rows had a cold compiler cache and others a warm one."""
        return bool(self.rows["compile_cache"].nunique() > 1)

    @cached_property
    def listed(self) -> Sequence[Row]:
        """The rows that a page lists: all, or MOST_LISTED with the best of every SECTION first."""
        if len(self.rows) <= MOST_LISTED:
            return words.as_rows(self.rows)
        rank = self.rows.groupby(list(SECTION), dropna=False, sort=False).cumcount()
        kept = rank.sort_values(kind="stable").index[:MOST_LISTED]
        return words.as_rows(self.rows.loc[sorted(kept)])

    @cached_property
    def _listed_ids(self) -> frozenset[str]:
        return frozenset(row["run_id"] for row in self.listed)

    def anchor(self, row: Row) -> str | None:
        """The id of a row's command and raw data on a page; None where it is not listed."""
        return f"run-{row['run_id']}" if row["run_id"] in self._listed_ids else None

    @property
    def unlisted(self) -> int:
        """How many rows a page does not list."""
        return len(self.rows) - len(self.listed)

    def listed_sections(self) -> Iterator[Sequence[Row]]:
        """The listed rows of each SECTION."""
        places = pd.DataFrame(
            {name: [row[name] for row in self.listed] for name in SECTION},
            index=range(len(self.listed)),
        )
        for part in parts(places, SECTION):
            yield [self.listed[place] for place in part.index]

    def place(self, row: Row) -> str:
        """Where a row was measured, with its environment's letter where there are several."""
        return words.place(row, self.has_letters)


def places(study: Study) -> str:
    """`AMD EPYC, 1 thread, torch 2.13.0+cpu`: where the rows were measured, on one line."""
    named = [*words.PLACE, "torch_version"]
    rows = words.as_rows(study.rows[named].drop_duplicates())
    told = dict.fromkeys(
        f"{study.place(row)}, torch {row['torch_version']}" if row["torch_version"]
        else study.place(row)
        for row in rows
    )  # fmt: skip
    if len(told) > MOST_PLACES:
        return f"{len(told)} places and versions of torch"
    return "; ".join(told)


def period(rows: pd.DataFrame) -> str:
    """`2026-11-20 10:33 to 10:36 UTC`: when the first and the last of the rows was started."""
    first, last = (datetime.fromisoformat(rows["started_at"].agg(end)) for end in ("min", "max"))
    start, end = f"{first:%Y-%m-%d %H:%M}", f"{last:%Y-%m-%d %H:%M}"
    if start == end:
        return f"{start} UTC"
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} UTC"
