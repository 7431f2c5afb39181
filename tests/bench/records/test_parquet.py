"""A record on disk is complete and exact, or absent."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from modescope.bench.records import parquet
from modescope.bench.records.parquet import SUMMARY
from modescope.bench.records.results import PARTS, SCHEMA_VERSION, Record, row
from tests.helpers.made_up_records import blank_record, record
from tests.helpers.stored_rows import rows_in


def read(path: Path) -> dict[str, Any]:
    (found,) = rows_in(path)
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}


def test_every_field_is_a_column_in_order_with_a_description() -> None:
    declared = [field for part in PARTS for field in fields(part)]
    assert parquet.SCHEMA.names == [*(field.name for field in declared), *SUMMARY.names]
    assert all(field.metadata["doc"] for field in declared)


@pytest.mark.parametrize(
    "made",
    [record(), record(latency_rounds_s=()), blank_record()],
    ids=["filled", "empty rounds", "blank"],
)
def test_a_record_survives_writing_and_reading(tmp_path: Path, made: Record) -> None:
    path = parquet.write(made, tmp_path)
    found, expected = read(path), row(made) | dict.fromkeys(SUMMARY.names)
    assert found == expected
    assert {n: type(v) for n, v in found.items()} == {n: type(v) for n, v in expected.items()}
    assert json.dumps(found, default=list) == json.dumps(expected, default=list)  # -0.0 is not 0.0


def test_a_file_has_one_row_and_the_name_of_its_run(tmp_path: Path) -> None:
    path = parquet.write(record("20260301T120000-abc"), tmp_path / "study" / "rows")
    assert path == tmp_path / "study" / "rows" / "20260301T120000-abc.parquet"
    assert list(path.parent.iterdir()) == [path]


def test_the_footer_names_the_schema_and_the_environment(tmp_path: Path) -> None:
    made = record()
    footer = pq.read_metadata(parquet.write(made, tmp_path)).metadata
    assert int(footer[b"modescope.schema_version"]) == SCHEMA_VERSION
    assert json.loads(footer[b"modescope.environment"]) == asdict(made.environment)


def test_a_file_appears_once_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def look(descriptor: int) -> None:
        seen.append((tmp_path / "run.parquet").exists())

    monkeypatch.setattr(os, "fsync", look)
    parquet.write(record(), tmp_path)
    assert seen == [False]
