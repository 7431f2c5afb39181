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


@dataclass(frozen=True)
class Keys:
    """Key columns of all runs of a study, in no order."""

    table: pa.Table
    _codes: dict[str, tuple[np.ndarray, list[object]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def codes(self, name: str) -> tuple[np.ndarray, list[object]]:
        """A number for each row's value of a column, and the values; null is the last of them."""
        if name not in self._codes:
            column = self.table[name]
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            whole = column.unify_dictionaries().combine_chunks()
            if isinstance(whole, pa.ChunkedArray):  # without rows
                whole = pa.array([], pa.string()).dictionary_encode()
            values = [*whole.dictionary.to_pylist(), None]
            self._codes[name] = (
                whole.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False), values
            )  # fmt: skip
        return self._codes[name]

    def groups(self, names: Sequence[str]) -> np.ndarray:
        """A number for each row, equal where all these columns are."""
        found = np.zeros(len(self), np.int64)
        most = 1
        for name in names:
            codes, values = self.codes(name)
            if most * len(values) > 2**62:
                found = np.unique(found, return_inverse=True)[1]
                most = int(found.max(initial=0)) + 1
            found, most = found * len(values) + codes, most * len(values)
        return found

    def distinct(self, names: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray]:
        """The distinct rows of these columns, and for each run the position of its own."""
        _, first, inverse = np.unique(self.groups(names), return_index=True, return_inverse=True)
        frame = pd.DataFrame({
            name: pd.Series([values[at] for at in codes[first]], dtype=_dtype(name))
            for name in names
            for codes, values in (self.codes(name),)
        })  # fmt: skip
        return frame, inverse

    @cached_property
    def letters(self) -> np.ndarray:
        """The letter of each run's environment (`select.environment_letters`)."""
        found = self._letters_of_ids()
        if found is None:
            frame = self.frame(("started_at", "run_id", *_LETTERED))
            ordered = frame.sort_values(["started_at", "run_id"])
            found = select.environment_letters(ordered).sort_index().to_numpy(dtype=object)
        return found

    def _letters_of_ids(self) -> np.ndarray | None:
        """The letters if all environments are known, each with one source of each model.

        None where the order of all runs matters.
        """
        ids, values = self.codes("environment_id")
        sources, known = self.codes("model_source_id")
        pairs = np.stack([self.groups(_SOURCED), sources])[:, sources < len(known) - 1]
        pairs = np.unique(pairs, axis=1)
        if (ids == len(values) - 1).any() or len(np.unique(pairs[0])) < pairs.shape[1]:
            return None
        times = pa.table({"id": pa.array(ids), "at": self.table["started_at"]})
        first = times.group_by("id").aggregate([("at", "min")]).sort_by("at_min")
        if pc.count_distinct(first["at_min"]).as_py() < first.num_rows:
            return None
        names = np.full(len(values), "?", dtype=object)
        for place, number in enumerate(first["id"].to_pylist()):
            names[number] = select.letter(place)
        letters: np.ndarray = names[ids]
        return letters

    def frame(self, names: Sequence[str]) -> pd.DataFrame:
        """These columns as in the table of `study.read`."""
        plain = [
            pc.cast(self.table[name], self.table[name].type.value_type)
            if pa.types.is_dictionary(self.table[name].type) else self.table[name]
            for name in names
        ]  # fmt: skip
        frame: pd.DataFrame = pa.table(plain, names=list(names)).to_pandas()
        return frame

    @cached_property
    def cases(self) -> np.ndarray:
        """A number for each run, equal for the runs that become one row (`select.CASE`)."""
        letters = pd.factorize(self.letters)[0]
        whole = self.groups(("case_id", "device", "compile_cache"))
        return whole * (int(letters.max(initial=0)) + 1) + letters

    @property
    def rows(self) -> int:
        """The number of rows that the derived table has."""
        return len(np.unique(self.cases))

    def closed(self, chosen: np.ndarray) -> np.ndarray:
        """The runs of `chosen` with all runs that their rows depend on."""
        family = np.unique(self.groups(CLOSED), return_inverse=True)[1]
        case, _ = self.codes("case_id")
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
        ids, values = self.codes("environment_id")
        found: dict[str, float] = {}
        for number in np.unique(ids[places]):
            if values[number] is not None:
                found[str(values[number])] = self._least_mean(places[ids[places] == number], paces)
        return found

    def _least_mean(self, places: np.ndarray, paces: np.ndarray) -> float:
        """The least mean of any case, exactly as `stats.combine` computes it."""
        cases = self.cases[places]
        means = pd.Series(np.log(paces[places])).groupby(cases).mean()
        exact = []
        for case in means.index[means <= means.min() + 1e-9]:
            mine = pa.array(places[cases == case])
            rows = self.table.select(["started_at", "run_id", PACE]).take(mine)
            values = rows.sort_by([("started_at", "ascending"), ("run_id", "ascending")])[PACE]
            combined = combine([Estimate(value, None, None) for value in values.to_pylist()])
            exact += [] if combined is None else [combined.value]
        return min(exact)

    def _is_latest(self) -> np.ndarray:
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


def _dtype(name: str) -> str | None:
    kind = SCHEMA.field(name).type
    return "str" if kind == pa.string() else None
