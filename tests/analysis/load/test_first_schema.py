"""Rows of schema version 1, such as those of the reference machine, among current ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.analysis import table
from modescope.analysis.load import first_schema, study
from modescope.analysis.load.samples import load
from modescope.analysis.metrics.registry import derive
from modescope.analysis.rows.select import latest
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.results import SCHEMA_VERSION
from modescope.bench.resolve import resolve
from tests.helpers.made_up_records import CPU
from tests.helpers.paths import REFERENCE

pytestmark = pytest.mark.full

KEPT = REFERENCE / "amd-epyc-2-cores"


def laptop(name: str) -> DeviceFacts:
    return CPU


def test_a_migrated_case_has_the_current_id_of_its_command(ask: Callable[..., Any]) -> None:
    rows = load(KEPT).to_dict("records")
    assert len(rows) == 22
    for row in rows:
        (request,) = ask(*shlex.split(row["command"])[2:])
        case, _ = resolve(request, laptop)
        assert row["case_id"] == case.case_id, row["command"]


def test_columns_added_since_are_unknown() -> None:
    rows = load(KEPT)
    assert set(rows["schema_version"]) == {SCHEMA_VERSION}
    assert set(rows["batch_dim"]) == {0}
    assert (
        rows[["cpu_model", "cpu_capability", "cpu_instructions", "hypervisor"]]
        .isna()
        .all(axis=None)
    )
    assert rows["environment_id"].nunique() == 1
    stored = {pq.read_table(path)["environment_id"][0].as_py() for path in KEPT.glob("runs/*")}
    assert not stored & set(rows["environment_id"])


def test_the_table_of_migrated_rows_names_no_environment() -> None:
    text = table.text(derive(latest(study.read(KEPT).table)))
    assert "environment" not in text
    assert "AMD EPYC, 1 thread" in text


@pytest.mark.parametrize(
    ("compiled", "fullgraph", "breaks"),
    [("default", True, 0), ("default", False, None), ("none", True, None)],
)
def test_graph_breaks_of_the_old_counter_are_unknown(
    compiled: str, fullgraph: bool, breaks: int | None
) -> None:
    """The old counter gave 0 for a branch on data."""
    row = pa.table(
        {
            "schema_version": [1],
            "case_id": ["old"],
            "model": ["custom:net:build"],
            "baseline_mode": ["eager"],
            "fullgraph": [fullgraph],
            "compile": [compiled],
            "graph_breaks": [0],
        }
    )
    assert first_schema.from_first(row)["graph_breaks"].to_pylist() == [breaks]


V1 = {
    "case_id": "old",
    "model": "mlp",
    "model_args": "{}",
    "fullgraph": True,
    "shape": '{"batch":8}',
    "phase": "train",
    "training": '{"optimizer":"adamw"}',
    "dtype": "fp32",
    "mode": "compile[graph=true]",
    "grad": "enabled",
    "autocast": False,
    "compile": "default",
    "graph": True,
    "baseline_mode": "amp",
    "baseline_dtype": "bf16",
    "device": "cuda:1",
    "threads": 1,
}


def test_a_training_case_id_is_computed_from_its_row(ask: Callable[..., Any]) -> None:
    def gpu(name: str) -> DeviceFacts:
        return DeviceFacts("cuda", "a GPU", (9, 0))

    (request,) = ask(
        *("model=mlp", "phase=train", "train.optimizer=adamw", "mode=compile", "mode.graph=true"),
        *("baseline.mode=amp", "baseline.dtype=bf16", "device=cuda:1", "shape.batch=8"),
    )
    case, _ = resolve(request, gpu)
    assert first_schema._case_id(V1 | {"shape": case.shape_json}) == case.case_id


@pytest.mark.parametrize(
    "columns",
    [
        {"model": "custom:net:build"},
        {"baseline_mode": "mine"},
        {"training": "no JSON"},
        {"training": '{"unknown":1}'},
        {"shape": "none"},
        {"device": None},
    ],
    ids=str,
)
def test_an_unknown_case_keeps_its_id(columns: dict[str, Any]) -> None:
    assert first_schema._case_id(V1 | columns) is None
    assert first_schema._case_id({k: v for k, v in V1.items() if k != "mode"}) is None
