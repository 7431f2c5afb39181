"""Tables that a page folds away: only what was found out, of what ended ok."""

from __future__ import annotations

from pathlib import Path

from analysis import words
from analysis.columns import NAMING
from analysis.details import details
from analysis.metrics import derived
from analysis.tables import Table
from bench.records import Record
from tests.analysis.passes import cpu_passes, cuda_passes
from tests.analysis.studies import not_measured, record, save


def _tables(folder: Path, *records: Record) -> dict[str, Table]:
    rows = words.as_rows(derived(save(records, folder)))
    return {table.title.partition(",")[0]: table for table in details(rows, NAMING)}


def _cells(table: Table, mode: str) -> dict[str, str]:
    (line,) = (line for line in table.rows if line[0] == mode)
    return dict(zip(table.titles, line, strict=True))


def test_counts_of_one_call_are_beside_each_other(tmp_path: Path) -> None:
    table = _tables(tmp_path, *cuda_passes())["Operators"]
    compiled = _cells(table, "compile")
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
    eager = _cells(table, "eager")
    assert (eager["generated"], eager["bytes moved"], eager["from cache"]) == ("–",) * 3
    assert _cells(table, "cuda-graph")["allocations"] == "0"


def test_what_nobody_found_out_has_no_column(tmp_path: Path) -> None:
    table = _tables(tmp_path, *cpu_passes())["Operators"]
    assert table.titles == ("mode", "dtype", "operators", "leaves", "with profiler")


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
