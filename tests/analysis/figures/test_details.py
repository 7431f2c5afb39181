"""Folded tables of a page: known values of rows that ended ok."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.figures import details
from modescope.analysis.format.tables import Table
from modescope.bench.records.results import Record
from tests.helpers.drawings import cells, rows_of, series_of
from tests.helpers.pass_columns import cpu_passes, cuda_passes, profiled
from tests.helpers.studies import batch_series, dispatch_series, not_measured, record


def _tables(folder: Path, *records: Record) -> dict[str, Table]:
    tables = details.of_section(rows_of(folder, *records))
    return {table.title.partition(",")[0]: table for table in tables}


def test_a_table_has_the_counts_of_one_call(tmp_path: Path) -> None:
    table = _tables(tmp_path, *cuda_passes())["Operators"]
    compiled = cells(table, "compile")
    assert compiled == {
        "mode": "compile",
        "dtype": "fp32",
        "operators": "9",
        "leaves": "9 (23.8 µs)",
        "launch delay": "6.00 µs",
        "with profiler": "1.10×",
        "generated": "9",
        "extern": "4",
        "bytes moved": "20.0 MiB (30.0 MiB less)",
        "from cache": "0 of 1",
        "allocations": "9 (12.0 MiB)",
    }
    assert table.named == 2
    eager = cells(table, "eager")
    assert (eager["generated"], eager["bytes moved"], eager["from cache"]) == ("–",) * 3
    assert cells(table, "cuda-graph")["allocations"] == "0"


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


def test_kernels_and_operators_have_a_table_each(tmp_path: Path) -> None:
    lost = not_measured("no_grad", "failed", "why")
    found = _tables(tmp_path / "some", *cuda_passes()[:1], lost)
    assert list(found) == ["Operators", "Heaviest kernels", "Heaviest operators"]
    assert found["Heaviest kernels"].rows == (
        ("eager fp32", "aten::addmm", "42", "38.0 µs", "100 %"),
    )
    assert found["Heaviest operators"].rows == (
        ("eager fp32", "aten::linear", "42", "38.0 µs", "50 %"),
    )
    assert _tables(tmp_path / "none", record(), lost) == {}


def test_a_table_states_measured_sizes_and_where_overhead_is_the_bottleneck(tmp_path: Path) -> None:
    table = details.of_series(series_of(tmp_path / "batch", *batch_series()))
    assert table.titles == ("mode", "batch measured", "bound by overhead")
    assert table.rows[0] == (
        "eager", "1 to 256, 5 rows", "up to about batch 46 (by the intervals between 16 and 64)",
    )  # fmt: skip


def test_modes_of_a_chain_are_sorted_by_dispatch_cost(tmp_path: Path) -> None:
    table = details.of_series(series_of(tmp_path, *dispatch_series()))
    assert table.titles[2] == "dispatch per op [95 %]"
    assert [line[0] for line in table.rows] == ["compile", "inference_mode", "no_grad", "eager"]
