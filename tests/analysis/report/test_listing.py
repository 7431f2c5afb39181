"""The table of all rows: grouped by work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.report.listing import listing
from modescope.analysis.report.study import Study
from modescope.bench.records.cases import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.studies import cpu_sweep, record, save


def _listed(records: Iterable[Record], folder: Path) -> dict[str, Any]:
    return listing(Study("main", "main", ordered(derived(save(records, folder))), (), {}))


def test_whatever_sets_works_apart_makes_another_heading(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"model": "mlp"},
        {"model_args": '{"width":64}'},
        {"model_inputs": '{"x":[8,64]}'},
        {"shape": canonical_json({"batch": 8, "seq": 64})},
        {"phase": "train", "optimizer": "sgd"},
        {"phase": "train", "optimizer": "adamw"},
        {"training": '{"lr":0.1}'},
        {"threads": 2},
        {"device": "cuda", "device_name": "NVIDIA H200"},
        {"environment_id": "env-2"},
    ]
    records = [record(case_id=f"case {n}", **each) for n, each in enumerate(changes)]
    works = _listed(records, tmp_path)["works"]
    assert [len(work.rows) for work in works] == [1] * len(changes)
    assert len({work.work + work.place for work in works}) == len(changes)


def test_rows_of_a_work_are_fastest_first_and_those_without_a_result_last(tmp_path: Path) -> None:
    works = _listed([*cpu_sweep("mlp"), *cpu_sweep()], tmp_path)["works"]
    assert [work.work for work in works] == [
        f"{model}, batch 4, seq 64, inference" for model in ("mlp", "transformer")
    ]
    for work in works:
        keys = [row.leading[2].key for row in work.rows]
        known = [float(key) for key in keys if key is not None]
        assert known == sorted(known, reverse=True)
        assert keys[len(known) :] == [None] * 2


def test_what_differs_is_a_column_and_what_is_equal_is_said_once(tmp_path: Path) -> None:
    equal = _listed([record(), record("eager", speedup=1.0)], tmp_path / "equal")
    assert len(equal["columns"].leading) == 4
    assert equal["shared"] == "against eager fp32, budget=standard, compile_cache=cold"
    other = record("amp", baseline_dtype="bf16", budget="quick", compile_cache="warm")
    differing = _listed([record(), other], tmp_path / "differing")
    assert differing["shared"] == ""
    assert {
        tuple(cell.text for cell in row.leading[4:])
        for work in differing["works"]
        for row in work.rows
    } == {("eager fp32", "standard", "cold"), ("eager bf16", "quick", "warm")}
