from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.load import load
from bench.records import SCHEMA_VERSION, UsageError
from bench.store import SCHEMA
from tests.analysis.studies import record, save


def test_one_row_per_run_in_order_of_start_with_lists_as_arrays(tmp_path: Path) -> None:
    late, early = (
        record("amp", started_at="2026-03-02T00:00:00Z", flags=("drift", "bimodal")),
        record("eager", started_at="2026-03-01T00:00:00Z"),
    )
    runs = load(save([late, early], tmp_path))
    assert list(runs["mode"]) == ["eager", "amp"]
    assert list(runs.columns) == SCHEMA.names
    assert isinstance(runs["latency_rounds_s"][0], np.ndarray)
    assert tuple(runs["latency_rounds_s"][1]) == late.findings.latency_rounds_s
    assert list(runs["flags"][1]) == ["drift", "bimodal"]


def _truncated(runs: Path) -> None:
    whole = next(runs.glob("run-*.parquet")).read_bytes()
    (runs / "bad.parquet").write_bytes(whole[: len(whole) // 2])


def _empty(runs: Path) -> None:
    (runs / "bad.parquet").touch()


def _foreign(runs: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), runs / "bad.parquet")


def _other_version(runs: Path) -> None:
    one = record()
    newer = replace(one.attempt, schema_version=SCHEMA_VERSION + 1, run_id="bad")
    save([replace(one, attempt=newer)], runs.parent)


def _other_types(runs: Path) -> None:
    ours = pq.read_table(next(runs.glob("run-*.parquet")))
    place = ours.column_names.index("latency_rounds_s")
    pq.write_table(ours.set_column(place, "latency_rounds_s", [["soon"]]), runs / "bad.parquet")


def _no_rows(runs: Path) -> None:
    pq.write_table(SCHEMA.empty_table(), runs / "bad.parquet")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_truncated, "cannot be read"),
        (_empty, "cannot be read"),
        (_foreign, "not a record of modescope"),
        (_other_version, f"schema version {SCHEMA_VERSION + 1}"),
        (_other_types, "other types"),
        (_no_rows, "no rows"),
    ],
)
def test_a_file_that_is_not_a_run_is_named_once_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], None], reason: str
) -> None:
    study = save([record("eager"), record("compile")], tmp_path)
    spoil(study / "runs")
    with caplog.at_level(logging.WARNING):
        runs = load(study)
    assert list(runs["mode"]) == ["eager", "compile"]
    (message,) = caplog.messages
    assert "bad.parquet" in message
    assert reason in message
    assert "\n" not in message


def test_files_being_written_are_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = save([record()], tmp_path)
    (study / "runs" / ".next.parquet").write_bytes(b"half")
    assert len(load(study)) == 1
    assert caplog.messages == []


def test_a_column_added_since_is_null(tmp_path: Path) -> None:
    study = save([record()], tmp_path)
    (path,) = (study / "runs").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["warmup_s", "flags"]), path)
    runs = load(study)
    assert runs["warmup_s"].isna().all()
    assert list(runs.columns) == SCHEMA.names


def test_a_missing_study_is_a_usage_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere.*run\.py"):
        load(tmp_path / "nowhere")
