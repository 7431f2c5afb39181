"""Rows against another mode than their baseline: which row that is, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.against import COLUMNS, against, in_place_of_the_baseline
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Record
from tests.helpers.drawings import rows_of
from tests.helpers.studies import not_measured, record

BF16: dict[str, Any] = {"dtype": "bf16", "baseline_dtype": "bf16"}


def _against(folder: Path, wanted: str, *records: Record) -> pd.DataFrame:
    return against(rows_of(folder, *records), wanted)


def _by_mode(rows: pd.DataFrame, column: str) -> dict[str, Any]:
    return dict(zip(rows["mode"], rows[column], strict=True))


def _five() -> list[Record]:
    return [
        record("eager", speedup=0.99),
        record("inference_mode", speedup=1.25),
        record("compile", speedup=1.5),
        record("amp", speedup=1.0),
        not_measured("cuda-graph", "skipped", "no GPU"),
    ]


def test_every_row_is_compared_with_that_mode_of_its_work(tmp_path: Path) -> None:
    other_work = [
        record("inference_mode", speedup=2.0, model="mlp"),
        record("compile", speedup=1.0, model="mlp"),
    ]
    rows = _against(tmp_path, "inference_mode", *_five(), *other_work)
    mlp = rows["model"] == "mlp"
    assert _by_mode(rows[mlp], "against_speedup")["compile"] == pytest.approx(0.5)
    found = _by_mode(rows[~mlp], "against_speedup")
    assert found["compile"] == pytest.approx(1.5 / 1.25)
    assert found["amp"] == pytest.approx(1.0 / 1.25)
    assert found["eager"] == pytest.approx(1 / 1.25)  # paired: not its own 0.99
    assert found["inference_mode"] == 1
    assert math.isnan(found["cuda-graph"])
    assert set(rows["against_mode"]) == {"inference_mode"}
    assert set(rows["against_dtype"]) == {"fp32"}


def test_verdicts_and_processes_are_those_of_the_ratio(tmp_path: Path) -> None:
    rows = _against(tmp_path, "inference_mode", *_five())
    assert _by_mode(rows, "against_verdict") == {
        "eager": "slower", "inference_mode": None, "compile": "faster", "amp": "slower",
        "cuda-graph": None,
    }  # fmt: skip
    behind = _by_mode(rows, "against_processes")
    assert [behind[mode] for mode in ("compile", "amp")] == [1, 1]
    assert all(math.isnan(behind[mode]) for mode in ("eager", "inference_mode"))


def test_against_the_baseline_is_the_paired_speedup(tmp_path: Path) -> None:
    for name in ("eager", "eager fp32"):
        rows = _against(tmp_path / name, name, record("compile", speedup=1.5))
        for end in ("", "_ci_low", "_ci_high"):
            assert rows[f"against_speedup{end}"].tolist() == rows[f"speedup{end}"].tolist()
        assert rows["against_verdict"].tolist() == rows["verdict"].tolist()
        assert rows["against_break_even_calls"].tolist() == rows["break_even_calls"].tolist()


def test_the_first_call_pays_against_that_of_the_other_mode(tmp_path: Path) -> None:
    # 2 s more, and 1 ms gained in each call of 1 ms
    rows = _against(
        tmp_path, "amp",
        record("amp", speedup=1.0, first_call_s=1.0),
        record("compile", latency_s=1e-3, speedup=2.0, first_call_s=3.0),
    )  # fmt: skip
    assert _by_mode(rows, "against_break_even_calls")["compile"] == pytest.approx(2000)


def test_without_a_precision_it_is_that_of_the_baseline(tmp_path: Path) -> None:
    modes = [
        record("inference_mode", speedup=1.25),
        record("inference_mode", speedup=2.0, dtype="bf16"),
        record("compile", speedup=3.0, dtype="bf16"),
    ]
    usual = _against(tmp_path / "usual", "inference_mode", *modes)
    assert _by_mode(usual, "against_speedup")["compile"] == pytest.approx(3.0 / 1.25)
    named = _against(tmp_path / "named", "inference_mode bf16", *modes)
    assert _by_mode(named, "against_speedup")["compile"] == pytest.approx(1.5)
    only = _against(tmp_path / "only", "compile", *modes)
    assert set(only["against_dtype"]) == {"bf16"}


def test_rows_of_another_baseline_are_compared_with_that_of_theirs(tmp_path: Path) -> None:
    rows = _against(
        tmp_path, "inference_mode",
        record("inference_mode", speedup=1.25),
        record("inference_mode", speedup=1.1, **BF16),
        record("compile", speedup=1.5),
        record("compile", speedup=2.2, case_id="bf16", **BF16),
    )  # fmt: skip
    compiled = rows[rows["mode"] == "compile"].set_index("dtype")["against_speedup"]
    assert compiled.to_dict() == pytest.approx({"fp32": 1.2, "bf16": 2.0})


def test_a_row_of_the_same_compiler_cache_is_preferred(tmp_path: Path) -> None:
    caches = [
        record("compile", speedup=1.5),
        record("compile", speedup=1.2, compile_cache="warm"),
        record("max-autotune", speedup=3.0),
        record("max-autotune", speedup=2.4, compile_cache="warm"),
        record("no_grad", speedup=1.8),
    ]
    rows = _against(tmp_path, "compile", *caches)
    tuned = rows[rows["mode"] == "max-autotune"].set_index("compile_cache")["against_speedup"]
    assert tuned.to_dict() == pytest.approx({"cold": 2.0, "warm": 2.0})


def _apart() -> list[Record]:
    return [
        record("compile", speedup=1.5, case_id="whole"),
        record("compile", speedup=1.2, case_id="pieces", fullgraph=False),
        record("no_grad", speedup=1.0),
    ]


def test_a_mode_is_named_as_the_table_names_it(tmp_path: Path) -> None:
    for name in ("compile (fullgraph=false)", "compile (fullgraph=false) fp32"):
        rows = _against(tmp_path / name, name, *_apart())
        assert _by_mode(rows, "against_speedup")["no_grad"] == pytest.approx(1 / 1.2)


def test_what_names_several_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        _against(tmp_path, "compile", *_apart())
    assert str(refused.value) == (
        "--against compile: transformer, batch 4, seq 64, inference was measured in compile "
        "(fullgraph=true) fp32 and compile (fullgraph=false) fp32; write the mode and its "
        "precision in quotes: --against 'compile (fullgraph=true) fp32'"
    )


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            "inference",
            "no row has this mode; there is amp, compile, eager and inference_mode, alone or with "
            "a precision ('compile fp32')",
        ),
        ("cuda-graph", "no row in this mode may be compared with (skipped: no GPU)"),
        (
            "reduce-overhead",
            "no row in this mode may be compared with (not in effect: no GPU to capture)",
        ),
    ],
)
def test_a_mode_that_nothing_can_be_compared_with_is_refused(
    tmp_path: Path, wanted: str, sentence: str
) -> None:
    idle = record("reduce-overhead", in_effect=False, in_effect_note="no GPU to capture")
    with pytest.raises(UsageError) as refused:
        _against(tmp_path, wanted, *_five(), idle)
    assert str(refused.value) == f"--against {wanted}: {sentence}"


@pytest.mark.parametrize(
    "differs",
    [
        {"model": "mlp"}, {"shape": '{"batch":5}'}, {"threads": 2}, {"device": "cuda"},
        {"environment_id": "env-2"}, {"phase": "train"}, {"baseline_mode": "no_grad"}, BF16,
        {"in_effect": False}, {"budget": "smoke"}, {"rounds": 5},
    ],
    ids=lambda differs: next(iter(differs)),
)  # fmt: skip
def test_rows_of_other_work_or_without_an_interval_are_not_compared_with(
    tmp_path: Path, differs: dict[str, Any]
) -> None:
    rows = _against(
        tmp_path, "inference_mode",
        record("compile", speedup=1.5),
        record("inference_mode", speedup=1.25, **differs),
        record("inference_mode", speedup=1.25, model="lstm"),
    )  # fmt: skip
    row = rows[(rows["mode"] == "compile")].iloc[0]
    assert pd.isna(row["against_mode"])
    assert math.isnan(row["against_speedup"])


def test_only_the_named_columns_are_added(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, *_five())
    compared = against(rows, "inference_mode")
    assert set(compared) - set(rows) == set(COLUMNS)
    pd.testing.assert_frame_equal(compared[list(rows)], rows)


def test_a_table_shows_the_mode_in_place_of_the_baseline(tmp_path: Path) -> None:
    other_work = record("compile", model="mlp")
    compared = _against(tmp_path, "inference_mode", *_five(), other_work)
    shown = in_place_of_the_baseline(compared)
    assert set(shown["model"]) == {"transformer"}
    assert set(shown["baseline_mode"]) == {"inference_mode"}
    for name, source in (("speedup", "against_speedup"), ("verdict", "against_verdict")):
        assert shown[name].equals(shown[source])
