"""A record on disk: complete, exact, or not there at all."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import store
from bench.records import PARTS, SCHEMA_VERSION, Record, row
from tests.made_up import blank_record, record


def read(path: Path) -> dict[str, Any]:
    (found,) = pq.ParquetFile(path).read().to_pylist()
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}


def test_every_field_is_a_column_in_order_with_a_description() -> None:
    declared = [field for part in PARTS for field in fields(part)]
    assert store.SCHEMA.names == [field.name for field in declared]
    assert all(field.metadata["doc"] for field in declared)


def test_every_type_of_column_occurs() -> None:
    """So that the round trips below speak for each of them."""
    assert set(store.SCHEMA.types) == {
        *(pa.string(), pa.int64(), pa.float64(), pa.bool_()),
        *map(pa.list_, (pa.string(), pa.float64(), pa.bool_())),
    }


@pytest.mark.parametrize("made", [record(), blank_record()], ids=["filled", "blank"])
def test_round_trip(tmp_path: Path, made: Record) -> None:
    path = store.write(made, tmp_path)
    found, expected = read(path), row(made)
    assert found == expected
    assert {n: type(v) for n, v in found.items()} == {n: type(v) for n, v in expected.items()}
    assert json.dumps(found, default=list) == json.dumps(expected, default=list)  # -0.0 is not 0.0


def test_unknown_stays_null(tmp_path: Path) -> None:
    found = read(store.write(blank_record(), tmp_path))
    assert None in found.values()
    assert found["latency_rounds_s"] is None
    assert found["error"] is None


def test_nothing_known_about_rounds_is_not_the_same_as_none_of_them(tmp_path: Path) -> None:
    found = read(store.write(record(latency_rounds_s=()), tmp_path))
    assert found["latency_rounds_s"] == ()


def test_one_row_under_the_name_of_the_run(tmp_path: Path) -> None:
    path = store.write(record("20260301T120000-abc"), tmp_path / "study" / "runs")
    assert path == tmp_path / "study" / "runs" / "20260301T120000-abc.parquet"
    assert list(path.parent.iterdir()) == [path]


def test_the_footer_says_what_it_is_and_where_it_was_made(tmp_path: Path) -> None:
    made = record()
    footer = pq.read_metadata(store.write(made, tmp_path)).metadata
    assert int(footer[b"modescope.schema_version"]) == SCHEMA_VERSION
    assert json.loads(footer[b"modescope.environment"]) == asdict(made.environment)


def disk_full(table: pa.Table, file: Any, **options: Any) -> NoReturn:
    file.write(b"half a file")
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pq, "write_table", disk_full)
    with pytest.raises(OSError, match="No space left"):
        store.write(record(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_name_appears_when_the_file_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def look(descriptor: int) -> None:
        seen.append((tmp_path / "run.parquet").exists())

    monkeypatch.setattr(os, "fsync", look)
    store.write(record(), tmp_path)
    assert seen == [False]


def no_links(source: Path, target: Path) -> NoReturn:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("has_links", [True, False])
def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    path = store.write(record(seed=1), tmp_path)
    with pytest.raises(FileExistsError):
        store.write(record(seed=2), tmp_path)
    assert read(path)["seed"] == 1
    assert list(tmp_path.iterdir()) == [path]
