"""The columns that tell which works a large study has, read without the rest of its rows.

Strings are numbered: a study of a million runs has a few hundred models and machines, and numbers
are compared a hundred times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from modescope.analysis.rows import select
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.results import Work
from modescope.bench.stats.estimates import Estimate, combine

WORK = tuple(one.name for one in fields(Work))
"""Columns that are equal in all runs of a case."""

CLOSED = tuple(name for name in select.FAMILY if name not in ("environment", "threads"))
"""Rows that differ in these are never compared with each other, so they are read apart."""

PACE = "_pace_fastest.value"

COLUMNS = (
    *CLOSED, "case_id", "run_id", "started_at", "environment_id", "model_source_id",
    "compile_cache", "replicate", "status", "budget_rank", PACE,
)  # fmt: skip

CODED = frozenset(
    name for name in (*WORK, "environment_id", "model_source_id", "status")
    if SCHEMA.field(name).type == pa.string()
)  # fmt: skip
"""Strings with few values."""

Places = NDArray[np.int64]
"""Positions of runs, or a number for each run."""


@dataclass(frozen=True)
class Codes:
    """A column of texts as numbers: places in `values`; null is one more."""

    numbers: Places
    values: pa.Array

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return len(self.values) + 1

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether each value is not null."""
        known: NDArray[np.bool_] = self.numbers < len(self.values)
        return known


@dataclass(frozen=True)
class Keys:
    """Key columns of all runs of a study, in no order."""

    table: pa.Table
    _codes: dict[str, Codes] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def codes(self, name: str) -> Codes:
        """A column of texts as numbers."""
        if name not in self._codes:
            column = self.table[name]
            if pa.types.is_dictionary(column.type):
                whole = column.unify_dictionaries().combine_chunks()
            else:
                whole = column.combine_chunks().dictionary_encode()
            if isinstance(whole, pa.ChunkedArray):  # how a column without rows is combined
                whole = pa.array([], pa.string()).dictionary_encode()
            unknown = len(whole.dictionary)
            numbers = whole.indices.fill_null(unknown).to_numpy(zero_copy_only=False)
            self._codes[name] = Codes(numbers, whole.dictionary)
        return self._codes[name]

    def groups(self, names: Sequence[str]) -> Places:
        """A number for each row, equal where all these columns are."""
        found = np.zeros(len(self), np.int64)
        most = 1
        for name in names:
            codes = self.codes(name)
            if most * codes.count > 2**62:
                found = pd.factorize(found)[0]
                most = int(found.max(initial=0)) + 1
            found, most = found * codes.count + codes.numbers, most * codes.count
        return found

    def distinct(self, names: Sequence[str]) -> tuple[pd.DataFrame, Places]:
        """The distinct rows of these columns, and for each run the position of its own."""
        places, groups = pd.factorize(self.groups(names))
        first = np.full(len(groups), -1)
        first[places[::-1]] = np.arange(len(places))[::-1]
        frame = self.frame(names, self.table.take(pa.array(first)))
        return frame, places

    @cached_property
    def letters(self) -> NDArray[np.object_]:
        """The letter of each run's environment (`select.environment_letters`)."""
        found = self._letters_of_ids()
        if found is None:
            frame = self.frame(("started_at", "run_id", *_LETTERED))
            ordered = frame.sort_values(["started_at", "run_id"])
            found = select.environment_letters(ordered).sort_index().to_numpy(dtype=object)
        return found

    def _letters_of_ids(self) -> NDArray[np.object_] | None:
        """The letters if all environments are known, each with one source of each model.

        None where the order of all runs matters.
        """
        ids, sources = self.codes("environment_id"), self.codes("model_source_id")
        works = self.groups(_SOURCED)[sources.is_known]
        both = pd.unique(works * sources.count + sources.numbers[sources.is_known])
        if not ids.is_known.all() or len(pd.unique(works)) < len(both):
            return None
        times = pa.table({"id": pa.array(ids.numbers), "at": self.table["started_at"]})
        first = times.group_by("id").aggregate([("at", "min")]).sort_by("at_min")
        if pc.count_distinct(first["at_min"]).as_py() < first.num_rows:
            return None
        names = np.full(ids.count, "?", dtype=object)
        for place, number in enumerate(first["id"].to_pylist()):
            names[number] = select.letter(place)
        letters: NDArray[np.object_] = names[ids.numbers]
        return letters

    def frame(self, names: Sequence[str], rows: pa.Table | None = None) -> pd.DataFrame:
        """These columns of all runs (or of `rows`) as in the table of `study.read`."""
        table = self.table if rows is None else rows
        plain = [table[name].cast(SCHEMA.field(name).type) for name in names]
        frame: pd.DataFrame = pa.table(plain, names=list(names)).to_pandas()
        return frame

    @cached_property
    def cases(self) -> Places:
        """A number for each run, equal for the runs that become one row (`select.CASE`)."""
        letters = pd.factorize(self.letters)[0]
        whole = self.groups(("case_id", "device", "compile_cache"))
        return whole * (int(letters.max(initial=0)) + 1) + letters

    @property
    def rows(self) -> int:
        """The number of rows that the derived table has."""
        return len(pd.unique(self.cases))

    def closed(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The runs of `chosen` with all runs that their rows depend on."""
        family = pd.factorize(self.groups(CLOSED))[0]
        case = self.codes("case_id").numbers
        before = -1
        while chosen.sum() != before:
            before = chosen.sum()
            for groups in (family, case):
                hit = np.zeros(int(groups.max(initial=0)) + 1, bool)
                hit[groups[chosen]] = True
                chosen = hit[groups]
        return chosen

    def fastest_paces(self) -> Mapping[str, float]:
        """For each environment_id the shortest pace of any row of the derived table, in seconds."""
        paces = self.table[PACE].to_numpy()
        known = ~np.isnan(paces)
        places = np.flatnonzero(known & self._is_latest())
        ids = self.codes("environment_id")
        found: dict[str, float] = {}
        for number, name in enumerate(ids.values.to_pylist()):
            mine = places[ids.numbers[places] == number]
            if len(mine):
                found[name] = self._least_mean(mine, paces)
        return found

    def _least_mean(self, places: Places, paces: NDArray[np.float64]) -> float:
        """The least mean of any case, exactly as `stats.combine` computes it."""
        cases = self.cases[places]
        logs = pd.Series(np.log(paces[places])).groupby(cases)
        means, counts = logs.transform("mean"), logs.transform("size")
        near = ((means <= means.min() + 1e-9) & (counts > 1)).to_numpy()
        alone = paces[places[(counts == 1).to_numpy()]]
        rows = self.table.select(["started_at", "run_id", PACE]).take(pa.array(places[near]))
        frame = rows.to_pandas().assign(case=cases[near]).sort_values(["started_at", "run_id"])
        several = [
            combined.value
            for _, values in frame.groupby("case")[PACE]
            if (combined := combine([Estimate(one, None, None) for one in values])) is not None
        ]
        return min([*several, *([float(alone.min())] if len(alone) else [])])

    def _is_latest(self) -> NDArray[np.bool_]:
        """Whether `select.latest` keeps each run."""
        replicates = self.table["replicate"].to_numpy()
        processes = pd.Series(self.cases * (int(replicates.max(initial=0)) + 1) + replicates)
        again = processes.duplicated(keep=False).to_numpy(copy=True)
        if again.any():
            names = ("started_at", "run_id", *select.CASE, "replicate", "status", "budget_rank")
            some = Keys(self.table.filter(pa.array(again)))
            frame = some.frame([name for name in names if name != "environment"])
            frame = frame.assign(environment=self.letters[again])
            again[np.flatnonzero(again)[select.newest(frame).index]] = False
        return ~again


_LETTERED = ("environment_id", "device", "model", *select.STEP, "model_source_id")
_SOURCED = ("environment_id", "model", *select.STEP)
