"""Steps of training by their parts: worked out by hand from planted blocks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.registry import derived
from modescope.bench.records.results import Record
from modescope.bench.summary import STEP_PARTS
from tests.helpers.studies import record, replicates, save, training

US = 1e-6
END = 7 / 11  # the share of the spread of twelve blocks within their interval


def _rows(folder: Path, *records: Record) -> pd.DataFrame:
    return derived(save(records, folder))


def _row(folder: Path, one: Record) -> dict[str, Any]:
    (row,) = _rows(folder, one).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_parts_are_medians_with_their_intervals(tmp_path: Path) -> None:
    parts_s = (400 * US, 600 * US, 200 * US, 50 * US)
    row = _row(tmp_path, training("amp", 1000 * US, parts_s=parts_s, part_spread=0.01))
    for name, seconds in zip(STEP_PARTS, parts_s, strict=True):
        assert row[f"{name}_s"] == pytest.approx(seconds)
        assert row[f"{name}_ci_low_s"] == pytest.approx(seconds * (1 - 0.01 * END))
        assert row[f"{name}_ci_high_s"] == pytest.approx(seconds * (1 + 0.01 * END))


@pytest.mark.parametrize(
    ("parts_us", "ratio", "residual_us"),
    [
        ((400, 600, 200), 1.2, -200),
        ((400, 300, 100), 0.8, 200),
        ((400, 600, 200, 50), 1.25, -250),  # a GradScaler's part is one of them
    ],
)
def test_the_residual_of_the_parts_is_a_column(
    tmp_path: Path, parts_us: tuple[float, ...], ratio: float, residual_us: float
) -> None:
    parts_s = [part * US for part in parts_us]
    row = _row(tmp_path, training("eager", 1000 * US, 1.0, parts_s))
    assert row["parts_ratio"] == pytest.approx(ratio, rel=1e-4)
    assert row["parts_residual_s"] == pytest.approx(residual_us * US, rel=1e-3)


def test_a_scaler_of_unknown_scale_has_its_part(tmp_path: Path) -> None:
    parts_s = (400 * US, 300 * US, 200 * US, 100 * US)
    row = _row(tmp_path, training("amp", 1000 * US, parts_s=parts_s, loss_scale=None))
    assert row["parts_ratio"] == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    "columns",
    [
        {"forward_rounds_s": None},
        {"backward_rounds_s": None},
        {"optimizer_rounds_s": None},
        {"loss_scale": 1024.0},  # a GradScaler whose part was not read
        {"parts_latency_rounds_s": None},
        {"status": "wrong_result", "reason": "the gradient of a weight is off"},
    ],
    ids=str,
)
def test_incomplete_parts_are_not_added_up(tmp_path: Path, columns: dict[str, Any]) -> None:
    row = _row(tmp_path, training("eager", **columns))
    assert math.isnan(row["parts_ratio"])
    assert math.isnan(row["parts_residual_s"])


def test_inference_has_no_parts(tmp_path: Path) -> None:
    row = _row(tmp_path, record())
    names = [*(f"{name}_s" for name in STEP_PARTS), "parts_ratio", "parts_residual_s"]
    assert [name for name in names if pd.notna(row[name])] == []


def test_parts_are_compared_with_the_step_of_their_own_process(tmp_path: Path) -> None:
    """Two processes of different speed: in each the parts are 1.2 times the step."""
    slow = training("eager", 2000 * US, 1.0, (800 * US, 1200 * US, 400 * US), replicate=1)
    (row,) = _rows(tmp_path, training("eager", 1000 * US, 1.0), slow).to_dict("records")
    assert row["replicates"] == 2
    assert row["parts_ratio"] == pytest.approx(1.2, rel=1e-4)
    assert row["forward_s"] == pytest.approx(math.sqrt(400 * 800) * US)
    assert row["parts_residual_s"] == pytest.approx(-0.2 * math.sqrt(1000 * 2000) * US, rel=1e-3)


def test_replicates_of_inference_combine_without_parts(tmp_path: Path) -> None:
    (row,) = _rows(tmp_path, *replicates(5)).to_dict("records")
    assert math.isnan(row["parts_ratio"])
