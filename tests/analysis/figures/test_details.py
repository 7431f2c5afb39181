"""Folded tables of a page: known values of rows that ended ok."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.figures import details
from modescope.analysis.format.tables import Table
from modescope.bench.records.results import Record
from tests.helpers.drawings import cells, rows_of, series_of
from tests.helpers.pass_columns import cpu_passes, profiled
from tests.helpers.studies import dispatch_series, record


def _tables(folder: Path, *records: Record) -> dict[str, Table]:
    tables = details.of_section(rows_of(folder, *records))
    return {table.title.partition(",")[0]: table for table in tables}


def test_a_column_without_any_value_is_omitted(tmp_path: Path) -> None:
    table = _tables(tmp_path, *cpu_passes())["Operators"]
    assert table.titles == ("mode", "dtype", "operators", "leaves", "with profiler")


def test_calls_of_compiled_code_are_divided(tmp_path: Path) -> None:
    split = {"guards_s": 30e-6, "compiled_wrapper_s": 20e-6}
    records = [record(**profiled(9, 100e-6, **split)), record("eager", **profiled(42, 100e-6))]
    table = _tables(tmp_path, *records)["Calls of compiled code"]
    assert [row[0] for row in table.rows] == ["compile"]
    assert cells(table, "compile") == {
        "mode": "compile",
        "dtype": "fp32",
        "profiled call": "200 µs",
        "cache lookup (guards)": "30.0 µs (15 %)",
        "Python around": "20.0 µs (10 %)",
        "compiled code and the rest": "150 µs (75 %)",
    }


def test_modes_of_a_chain_are_sorted_by_dispatch_cost(tmp_path: Path) -> None:
    table = details.of_series(series_of(tmp_path, *dispatch_series()))
    assert table.titles[2] == "dispatch per op [95 %]"
    assert [line[0] for line in table.rows] == ["compile", "inference_mode", "no_grad", "eager"]
