"""Folded tables of a page: known values of rows that ended ok."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.figures.registry import section_tables, series_table
from modescope.analysis.format.columns import Table
from modescope.bench.records.results import Record
from tests.helpers.drawings import rows_of, series_of
from tests.helpers.pass_columns import cpu_passes
from tests.helpers.studies import dispatch_series


def _tables(folder: Path, *records: Record) -> dict[str, Table]:
    tables = section_tables(rows_of(folder, *records))
    return {table.title.partition(",")[0]: table for table in tables}


def test_a_column_without_any_value_is_omitted(tmp_path: Path) -> None:
    table = _tables(tmp_path, *cpu_passes())["Operators"]
    assert table.titles == ("mode", "dtype", "operators", "leaves", "with profiler")


def test_modes_of_a_chain_are_sorted_by_dispatch_cost(tmp_path: Path) -> None:
    table = series_table(series_of(tmp_path, *dispatch_series()))
    assert table.titles[2] == "dispatch per op [95 %]"
    assert [line[0] for line in table.rows] == ["compile", "inference_mode", "no_grad", "eager"]
