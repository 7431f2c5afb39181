"""Rows of schema version 2, whose clocks were read one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.analysis.load.samples import load
from modescope.analysis.load.second_schema import from_second
from modescope.analysis.metrics.registry import derived
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.results import SCHEMA_VERSION, Record
from tests.helpers.pass_columns import profiled
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record, save, training

US = 1e-6
SINCE = (
    "pace_rounds_s", "clocks_latency_rounds_s", "clocks_pace_rounds_s", "profiled_pace_s",
    "baseline_device_rounds_s", "baseline_dispatch_rounds_s", "parts_latency_rounds_s",
    "profiled_kernels_rounds_s", "profiled_latency_rounds_s",
)  # fmt: skip


def _old(folder: Path, *records: Record) -> Path:
    """A study whose files have schema version 2."""
    study = save(records, folder)
    for path in (study / "runs").glob("*.parquet"):
        table = pq.read_table(path).drop_columns(list(SINCE))
        place = table.column_names.index("schema_version")
        pq.write_table(table.set_column(place, "schema_version", [[2]]), path)
    return study


def _run(folder: Path, one: Record) -> dict[str, Any]:
    (run,) = load(_old(folder, one)).to_dict("records")
    return {str(name): value for name, value in run.items()}


def test_clocks_get_the_median_latency_and_a_constant_pace(tmp_path: Path) -> None:
    clocks = cpu_clocks(100 * US, None) | {"dispatch_rounds_s": blocks(20 * US, count=15)}
    run = _run(tmp_path, record("eager", 100 * US, 1.0, **clocks, **profiled(9, 80 * US)))
    assert run["schema_version"] == SCHEMA_VERSION
    assert run["clocks_latency_rounds_s"].tolist() == pytest.approx([100 * US] * 15)
    assert run["clocks_pace_rounds_s"].tolist() == [1.0] * 15
    assert run["profiled_pace_s"] == 1.0
    assert run["profiled_kernels_rounds_s"].tolist() == [80 * US]
    assert run["profiled_latency_rounds_s"].tolist() == pytest.approx([100 * US])
    assert run["parts_latency_rounds_s"] is None
    assert run["pace_rounds_s"] is None
    assert run["baseline_device_rounds_s"] is None


def test_parts_get_the_median_latency_of_the_step(tmp_path: Path) -> None:
    run = _run(tmp_path, training("eager", 1000 * US, 1.0))
    assert run["parts_latency_rounds_s"].tolist() == pytest.approx([1000 * US] * 12)
    assert run["clocks_latency_rounds_s"] is None


def test_what_was_not_measured_stays_null(tmp_path: Path) -> None:
    run = _run(tmp_path, record("eager", 100 * US, 1.0))
    for name in SINCE:
        value = run[name]
        assert value is None or value != value, name


def test_figures_of_old_rows_are_those_of_constant_pace(tmp_path: Path) -> None:
    clocks = cpu_clocks(100 * US, 10 * US)
    old = _old(tmp_path, record("eager", 100 * US, 1.0, **clocks, **profiled(9, 80 * US)))
    (row,) = derived(old).to_dict("records")
    assert row["dispatch_share"] == pytest.approx(0.1)
    assert row["work_s"] == pytest.approx(90 * US, rel=1e-3)
    assert row["residual_s"] == pytest.approx(10 * US, rel=1e-2)
    assert row["pace_slowest"] != row["pace_slowest"]


def test_old_rows_of_a_gpu_have_shares_and_no_fusion_gain(tmp_path: Path) -> None:
    old = _old(
        tmp_path,
        record("inference_mode", 112 * US, 1.2, **cuda_clocks(100 * US, 40 * US)),
        record("compile", 72 * US, 1.8, **cuda_clocks(60 * US, 25 * US)),
    )
    rows = derived(old).set_index("mode")
    assert rows["device_share"]["compile"] == pytest.approx(25 / 72, rel=1e-3)
    assert rows["bound_by"]["compile"] == "overhead"
    assert rows["fusion_gain"].isna().all()


def test_a_column_of_another_type_is_left_for_the_reader_to_report() -> None:
    row = pa.table({"latency_rounds_s": ["soon"], "host_rounds_s": [[1e-4]]})
    migrated = from_second(row)
    assert migrated["clocks_latency_rounds_s"].to_pylist() == [None]
    assert (
        migrated.schema.field("clocks_latency_rounds_s").type == SCHEMA.field("host_rounds_s").type
    )
