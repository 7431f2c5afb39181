"""Derives many small studies in one go, which takes a fraction of the time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from modescope.analysis.derive.select import latest
from modescope.analysis.folders import Folder
from modescope.analysis.load import read
from modescope.analysis.metrics import derive
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped, value_of
from modescope.bench.records.results import Record
from modescope.bench.stats.estimates import Estimate
from tests.helpers.studies import save


def table_of(study: str | Folder) -> pd.DataFrame:
    """The derived table of a study, in which an estimate is one column."""
    return derive(latest(read(study).table))


def studies_of(folder: Path, studies: Iterable[Iterable[Record]]) -> list[list[Row]]:
    """The derived rows of each study, in the order of its records.

    All are saved as one study. Each has environment ids of its own, so that rows of different
    studies are not compared.
    """
    numbered = list(enumerate(studies))
    rows = table_of(save((_apart(one, n) for n, study in numbered for one in study), folder))
    groups = grouped((row["environment_id"].partition("#")[0], row) for row in as_rows(rows))
    return [groups[str(number)] for number, _ in numbered]


def rows_of_each(folder: Path, records: Iterable[Record]) -> list[Row]:
    """The derived row of each record, as if it were alone in its study."""
    return [row for (row,) in studies_of(folder, ([one] for one in records))]


def values_of_each(folder: Path, column: str, records: Iterable[Record]) -> list[Any]:
    """The derived column `column` of each record, as if it were alone; None where unknown.

    Of estimates these are the values.
    """
    found = (value_of(row, column) for row in rows_of_each(folder, records))
    return [value.value if isinstance(value, Estimate) else value for value in found]


def _apart(one: Record, number: int) -> Record:
    known = f"{number}#{one.environment.environment_id}"
    return replace(
        one,
        attempt=replace(one.attempt, run_id=f"{number}-{one.attempt.run_id}"),
        environment=replace(one.environment, environment_id=known),
    )
