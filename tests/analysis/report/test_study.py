"""The rows that a page lists, by work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import ordered
from modescope.analysis.report import study
from modescope.analysis.report.study import Study
from modescope.bench.records.cases import canonical_json
from tests.helpers.studies import cpu_sweep, record, save


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
    shown = Study("main", "main", ordered(derived(save(records, tmp_path))), (), {})
    assert list(map(len, shown.sections)) == [1] * len(changes)
    assert len(shown.by_work([rows[0] for rows in shown.sections])) == len(changes)


def test_of_many_rows_the_best_of_each_work_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "MOST_LISTED", 4)
    records = [*cpu_sweep("mlp"), *cpu_sweep("transformer")]
    shown = Study("main", "main", ordered(derived(save(records, tmp_path))), (), {})
    assert [[row["mode"] for row in rows] for rows in shown.sections] == [
        ["max-autotune", "compile"]
    ] * 2
    assert shown.unlisted == 18
    assert [row["mode"] for row in shown.by_id.values() if shown.anchor(row)] == [
        *("max-autotune", "compile", "max-autotune", "compile")
    ]
