"""The study that a report shows: its rows, their causes, and the recommendations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from modescope.analysis.causes.types import Finding
from modescope.analysis.derive import against, flags
from modescope.analysis.derive.mix import MIX_COLUMNS
from modescope.analysis.derive.select import FAMILY, SAME_BASELINE, SECTION, split_rows
from modescope.analysis.format import baselines, phrases
from modescope.analysis.recommend.types import Recommendation
from modescope.analysis.report.rounds import Strip
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped
from modescope.bench.records.outcomes import Status

MOST_LISTED = 1000  # rows per page: more make a browser slow

_NEEDED = tuple(
    dict.fromkeys(
        (*against.NEEDED, *SAME_BASELINE, *FAMILY, *phrases.PLACE, *flags.BANNER_COLUMNS,
         *MIX_COLUMNS, "apart", "reason", "budget", "in_effect", "in_effect_note", "verdict",
         "autocast", "compile_mode", "graph", "compile_cache", "first_call_s", "break_even_calls",
         "baseline_latency_s", "baseline_note", "pace", "package_export_s", "package_build_s",
         "fill_s", "calls_pad", "flags_touch", "profiler_overhead", "quantize")
    )
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A study's rows in reading order, their causes, and the recommendations based on them."""

    name: str  # of its folder
    folder: str  # as an argument of a command
    rows: pd.DataFrame
    answers: tuple[Recommendation, ...]
    unread: Mapping[str, str]  # unreadable files, each with the reason
    causes: Mapping[str, Sequence[Finding]] = field(default_factory=dict)  # by run_id
    traces: Path | None = None  # the folder of its traces, beside the report; None: out of reach
    strips: Mapping[str, Strip] = field(default_factory=dict)  # by run_id; not of every row

    @cached_property
    def has_letters(self) -> bool:
        """Whether rows come from several environments, which are then named by letters."""
        return bool(self.rows["environment"].nunique() > 1)

    @cached_property
    def has_caches(self) -> bool:
        """Whether rows differ in their compiler cache (cold or warm)."""
        return bool(self.rows["compile_cache"].nunique() > 1)

    @cached_property
    def recommended(self) -> frozenset[str]:
        """The run_ids of the modes recommended at their own precision, the baseline among them.

        Without answers for filled caches, of which each state has its own, if there are several.
        """
        chosen = ((answer.question, answer.choice) for answer in self.answers)
        return frozenset(
            mode.run_id
            for asked, mode in chosen
            if mode and mode.dtype == asked.dtype and not (asked.cache_label and self.has_caches)
        )

    @cached_property
    def by_id(self) -> Mapping[str, Row]:
        """A dict from run_id to row, with the columns that name a row and say whether it counts."""
        return {row["run_id"]: row for row in as_rows(self.rows[list(_NEEDED)])}

    @cached_property
    def sections(self) -> Sequence[Sequence[Row]]:
        """The rows that a page lists, with all columns, in groups of one model and size (SECTION).

        If the study has more than MOST_LISTED rows, the best rows of each group are kept.
        """
        kept = self.rows
        if len(kept) > MOST_LISTED:
            rank = kept.groupby(list(SECTION), dropna=False, sort=False).cumcount()
            kept = kept.loc[sorted(rank.sort_values(kind="stable").index[:MOST_LISTED])]
        return split_rows(as_rows(kept), SECTION)

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(row["run_id"] for rows in self.sections for row in rows)

    @property
    def unlisted(self) -> int:
        """The number of rows that a page does not list."""
        return len(self.rows) - len(self._listed)

    def anchor(self, row: Row) -> str | None:
        """The HTML id of a row's command and raw data; None if the page does not list the row."""
        return f"run-{row['run_id']}" if row["run_id"] in self._listed else None

    def place(self, row: Row) -> str:
        """The machine that measured a row; with its environment's letter if there are several."""
        return phrases.place(row, self.has_letters)

    def conditions(self, rows: Sequence[Row]) -> str:
        """The machine of rows of one work, their baseline, and the cache that holds their data."""
        ok = [row for row in rows if row["status"] == Status.OK]
        parts = self.place(rows[0]), phrases.from_cache(ok), baselines.against(rows)
        return " · ".join(filter(None, parts))

    def variant(self, row: Row) -> str:
        """The row's mode and precision, `compile fp32`; with its cache if rows differ in that."""
        cache = f" ({phrases.cache(row)})" if self.has_caches else ""
        return phrases.variant(row) + cache

    def by_work(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """Groups rows by a text with their model, size and phase, and the machine if several."""
        places = [f" on {self.place(row)}" if self.has_letters else "" for row in rows]
        pairs = zip(rows, places, strict=True)
        return grouped((phrases.work(row) + place, row) for row, place in pairs)
