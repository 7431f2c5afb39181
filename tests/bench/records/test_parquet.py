"""A record on disk is complete and exact, or absent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from modescope.bench.records import parquet
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.results import Record, columns_of, row
from modescope.bench.records.summary_columns import SUMMARY
from tests.helpers.commands import rows_in
from tests.helpers.made_up_records import blank_record, record
from tests.helpers.paths import REFERENCE

KEPT = sorted(REFERENCE.rglob("rows/*.parquet"))


def test_every_field_is_a_column_in_order_with_a_description() -> None:
    declared = columns_of(Record)
    assert parquet.SCHEMA.names == [*(column.name for column in declared), *SUMMARY.names]
    assert all(column.doc for column in declared)


@pytest.mark.parametrize(
    "made",
    [record(), record(latency_rounds_s=()), blank_record()],
    ids=["filled", "empty rounds", "blank"],
)
def test_a_record_survives_writing_and_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Record
) -> None:
    synced: list[bool] = []
    file = tmp_path / "study" / "rows" / "run.parquet"
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(file.exists()))
    assert parquet.write(row(made), file.parent) == file
    assert list(file.parent.iterdir()) == [file]
    assert synced == [False]  # before it has its name
    (found,) = rows_in(file)
    found = {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
    expected = row(made) | dict.fromkeys(SUMMARY.names)
    assert found == expected
    assert {n: type(v) for n, v in found.items()} == {n: type(v) for n, v in expected.items()}
    assert json.dumps(found, default=list) == json.dumps(expected, default=list)  # -0.0 is not 0.0


@pytest.mark.parametrize("checked", Checked)
@pytest.mark.parametrize("status", Status)
def test_a_value_of_an_enum_is_stored_as_its_text(
    tmp_path: Path, status: Status, checked: Checked
) -> None:
    in_hand = row(record(status=status, checked=checked))
    (found,) = rows_in(parquet.write(in_hand, tmp_path))
    for name, value in (("status", status), ("checked", checked)):
        assert type(found[name]) is str
        assert found[name] == in_hand[name] == value.value
        assert json.dumps(in_hand[name]) == json.dumps(found[name])


@pytest.mark.parametrize("file", KEPT, ids=lambda path: str(path.parent.relative_to(REFERENCE)))
def test_details_are_what_python_reads(file: Path) -> None:
    stored = pq.read_table(file)
    texts = stored["details"].to_pylist()
    known = [json.loads(text) for text in texts]
    expected = [{name: row.get(name) for name in parquet.DETAILS} for row in known]
    found = parquet.unpack(stored, parquet.DETAILS).to_pylist()
    assert json.dumps(found) == json.dumps(expected)
