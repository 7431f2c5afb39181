"""Migrates a row of schema version 1 to version 2, which computes ids differently.

A version 2 case id omits every option at its default, and `fullgraph` if nothing is compiled. An
environment id covers the machine and its software instead of the whole source tree. Values that
version 1 did not record, such as instruction sets, stay null. Version 1 read graph breaks from an
incomplete counter, so their number becomes null where breaks were allowed or nothing was compiled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from modescope.bench.records.cases import BUILT_IN, Case, Inference, Mode, Model, Training, Variant
from modescope.bench.records.fingerprint_columns import FINGERPRINT
from modescope.bench.records.ids import short_hash

PRESETS = {
    "eager": Mode("eager", "enabled"),
    "no_grad": Mode("no_grad", "no_grad"),
    "inference_mode": Mode("inference_mode", "inference_mode"),
    "amp": Mode("amp", "natural", autocast=True),
    "amp-compile": Mode("amp-compile", "natural", autocast=True, compile="default"),
    "compile": Mode("compile", "natural", compile="default"),
    "reduce-overhead": Mode("reduce-overhead", "natural", compile="reduce-overhead"),
    "max-autotune": Mode("max-autotune", "natural", compile="max-autotune"),
    "max-autotune-no-cudagraphs": Mode(
        "max-autotune-no-cudagraphs", "natural", compile="max-autotune-no-cudagraphs"
    ),
    "cuda-graph": Mode("cuda-graph", "natural", graph=True),
    "compile-cuda-graph": Mode("compile-cuda-graph", "natural", compile="default", graph=True),
}
"""The modes of version 1, whose rows hold only the name of the baseline."""

SHIPPED = ("mlp", "pointwise", "transformer")
"""The models of version 1; their batch_dim, which rows did not hold, was 0."""


def from_first(table: pa.Table) -> pa.Table:
    """The row with ids of version 2; the case id is unchanged if it cannot be computed."""
    names = [name for name in _USED if name in table.column_names]
    (row,) = table.select(names).to_pylist()
    if case_id := _case_id(row):
        table = with_value(table, "case_id", case_id)
    if row.get("model") in SHIPPED and "batch_dim" not in table.column_names:
        table = table.append_column("batch_dim", pa.array([0], pa.int64()))
    counted = row.get("fullgraph") and row.get("compile") != "none"
    if row.get("graph_breaks") is not None and not counted:
        table = with_value(table, "graph_breaks", None)
    if row.get("environment_id"):
        known = {name: row.get(name) for name in FINGERPRINT}
        table = with_value(table, "environment_id", short_hash(known))
    return table


_CASE = (
    *("case_id", "model", "model_args", "fullgraph", "shape", "phase", "training", "dtype"),
    *("mode", "grad", "autocast", "compile", "graph", "baseline_mode", "baseline_dtype"),
    *("device", "threads"),
)
_USED = (*_CASE, "graph_breaks", "environment_id", *FINGERPRINT)


def _case_id(row: Mapping[str, Any]) -> str | None:
    """The id of the row's case; None if the row is incomplete or invalid."""
    try:
        known = row["model"] in SHIPPED and row["baseline_mode"] in (None, *PRESETS)
        return _case(row).case_id if known else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # `load.validate` reports what is wrong


def _case(row: Mapping[str, Any]) -> Case:
    trains, baseline = row["phase"] == "train", None
    if row["baseline_mode"]:
        preset = PRESETS[row["baseline_mode"]]
        baseline = Variant(_resolved(preset, trains), row["baseline_dtype"])
    options = json.loads(row.get("training") or "{}")
    mode = Mode(row["mode"], row["grad"], row["autocast"], row["compile"], row["graph"])
    target = f"{BUILT_IN}{row['model']}:build"
    return Case(
        model=Model(row["model"], target, row["model_args"], fullgraph=row["fullgraph"]),
        shape_json=row["shape"],
        variant=Variant(mode, row["dtype"]),
        baseline=baseline,
        device=row["device"],
        threads=row["threads"],
        options=Training(**options) if trains else Inference(),
    )


def _resolved(mode: Mode, trains: bool) -> Mode:
    """Resolves `natural`: enabled for training, inference_mode for inference."""
    if mode.grad != "natural":
        return mode
    return replace(mode, grad="enabled" if trains else "inference_mode")


def with_value(table: pa.Table, name: str, value: str | int | None) -> pa.Table:
    """The one-row `table` with `value` in an existing column."""
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array([value], table.schema.field(name).type))
