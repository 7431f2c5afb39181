"""A study as it was read once: its newest processes, derived rows and recommendations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from modescope.analysis.derive.select import latest
from modescope.analysis.load import Runs
from modescope.analysis.metrics import derive
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import Recommendation


@dataclass(frozen=True)
class Snapshot:
    """What follows from the rows of a study. Each part is computed once, when it is first used.

    Rows that are measured or confirmed later need another snapshot.
    """

    stored: Runs
    among: frozenset[str] | None = None  # the ids of the runs that count; None: all

    @cached_property
    def processes(self) -> pd.DataFrame:
        """The newest run of each process (`select.latest`)."""
        return latest(self.stored.table, self.among)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per case and environment, with every metric (`metrics.derive`)."""
        return derive(self.processes)

    @cached_property
    def answers(self) -> tuple[Recommendation, ...]:
        """Which mode to use, without wishes (`decide.recommend`)."""
        return recommend(self.rows)

    def of(self, run_ids: Collection[str]) -> Snapshot:
        """Returns the snapshot in which only these runs count.

        It is this one, with what it has computed, if they are the newest of all its processes.
        """
        alone = replace(self, among=frozenset(run_ids))
        pairs = (side.processes[["run_id", "measured_times"]] for side in (alone, self))
        of_alone, of_self = (pair.to_numpy().tolist() for pair in pairs)
        return self if of_alone == of_self else alone
