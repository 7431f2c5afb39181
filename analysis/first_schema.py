"""A row of schema version 1 -> one of version 2, in which ids are made of other things.

A case's id leaves out every option at its default, and `fullgraph` where nothing is compiled. An
environment's id covers the machine and its software instead of the whole source tree. What was not
recorded, such as instruction sets, stays null. Graph breaks had been read from a counter that
misses some, so where they were allowed their number is unknown; as it is where nothing is compiled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bench.fingerprint import FINGERPRINT
from bench.records import Case, Mode, Model, Training, Variant, short_hash

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
"""The modes of that version. Of a baseline its rows hold the name alone."""

SHIPPED = ("mlp", "pointwise", "transformer")
"""The models of that version: batch_dim, which rows did not hold, was 0 for them."""


def migrated(table: pa.Table) -> pa.Table:
    """The row with ids of version 2; the case keeps its id where that cannot be known."""
    names = [name for name in _USED if name in table.column_names]
    (row,) = table.select(names).to_pylist()
    case_id = _case_id(row)
    if case_id:
        table = _with(table, "case_id", case_id)
    if row.get("model") in SHIPPED and "batch_dim" not in table.column_names:
        table = table.append_column("batch_dim", pa.array([0], pa.int64()))
    counted = row.get("fullgraph") and row.get("compile") != "none"
    if row.get("graph_breaks") is not None and not counted:
        table = _with(table, "graph_breaks", None)
    if row.get("environment_id"):
        known = {name: row.get(name) for name in FINGERPRINT}
        table = _with(table, "environment_id", short_hash(known))
    return table


_CASE = (
    *("case_id", "model", "model_args", "fullgraph", "shape", "phase", "training", "dtype"),
    *("mode", "grad", "autocast", "compile", "graph", "baseline_mode", "baseline_dtype"),
    *("device", "threads"),
)
_USED = (*_CASE, "graph_breaks", "environment_id", *FINGERPRINT)


def _case_id(row: Mapping[str, Any]) -> str | None:
    """The id of the row's case; None where the row does not say all of it, or nonsense."""
    try:
        return _case(row).case_id if _is_known(row) else None
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ):  # analysis.contents says what is wrong
        return None


def _is_known(row: Mapping[str, Any]) -> bool:
    return row["model"] in SHIPPED and row["baseline_mode"] in (None, *PRESETS)


def _case(row: Mapping[str, Any]) -> Case:
    baseline = row["baseline_mode"]
    trains = row["phase"] == "train"
    options = json.loads(row.get("training") or "{}")
    mode = Mode(row["mode"], row["grad"], row["autocast"], row["compile"], row["graph"])
    return Case(
        model=Model(
            row["model"],
            f"models.{row['model']}:build",
            row["model_args"],
            fullgraph=row["fullgraph"],
        ),
        shape_json=row["shape"],
        variant=Variant(mode, row["dtype"]),
        baseline=(
            Variant(_resolved(PRESETS[baseline], trains), row["baseline_dtype"])
            if baseline
            else None
        ),
        device=row["device"],
        threads=row["threads"],
        training=Training(**options) if trains else None,
    )


def _resolved(mode: Mode, trains: bool) -> Mode:
    """Natural means that gradients are recorded where they are needed, and nothing else is."""
    if mode.grad != "natural":
        return mode
    return replace(mode, grad="enabled" if trains else "inference_mode")


def _with(table: pa.Table, name: str, value: str | None) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array([value], table.schema.field(name).type))
