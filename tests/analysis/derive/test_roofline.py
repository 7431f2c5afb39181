from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.registry import derived
from tests.helpers.pass_columns import BOUNDS
from tests.helpers.studies import cpu_clocks, cuda_clocks, record, save


def _row(folder: Path, **columns: Any) -> dict[str, Any]:
    (row,) = derived(save([record("eager", 0.25, 1.0, **columns)], folder)).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_the_floor_is_the_longer_of_arithmetic_and_traffic(tmp_path: Path) -> None:
    by_bytes = _row(tmp_path / "bytes", **BOUNDS)
    assert (by_bytes["floor_s"], by_bytes["floor_bound"]) == (pytest.approx(0.05), "memory")
    by_flops = _row(tmp_path / "flops", **(BOUNDS | {"flops": 20_000_000_000}))
    assert (by_flops["floor_s"], by_flops["floor_bound"]) == (pytest.approx(0.2), "compute")


def test_work_without_matrix_products_has_a_memory_floor(tmp_path: Path) -> None:
    row = _row(tmp_path, **(BOUNDS | {"flops": 0}))
    assert (row["floor_s"], row["floor_bound"]) == (pytest.approx(0.05), "memory")


@pytest.mark.parametrize("unknown", BOUNDS)
def test_the_floor_is_unknown_without_one_of_its_four_inputs(tmp_path: Path, unknown: str) -> None:
    row = _row(tmp_path, **(BOUNDS | {unknown: None} | cpu_clocks(0.25, 0.05)))
    assert math.isnan(row["floor_s"])
    assert pd.isna(row["floor_bound"])
    assert math.isnan(row["roofline_fraction"])


def test_the_roofline_fraction_refers_to_work_not_latency(tmp_path: Path) -> None:
    on_cpu = _row(tmp_path / "cpu", **BOUNDS, **cpu_clocks(0.25, 0.05))
    assert on_cpu["roofline_fraction"] == pytest.approx(0.05 / 0.2, rel=1e-3)
    on_cuda = _row(tmp_path / "cuda", **BOUNDS, **cuda_clocks(0.01, 0.1))
    assert on_cuda["roofline_fraction"] == pytest.approx(0.05 / 0.1)
    unread = _row(tmp_path / "unread", **BOUNDS, **cpu_clocks(0.25, None))
    assert math.isnan(unread["roofline_fraction"])
    no_work = _row(tmp_path / "none", **BOUNDS, **cpu_clocks(0.25, 0.26))
    assert math.isnan(no_work["roofline_fraction"])


END = 0.01 * 7 / 11  # of the interval of twelve blocks


@pytest.mark.parametrize(
    ("device_s", "expected"),
    [
        (0.06, []),
        (0.05 / (1 + END) * 1.001, []),  # its interval reaches the floor
        (0.05 / (1 + END) * 0.999, ["above_ceiling"]),
        (0.01, ["above_ceiling"]),
    ],
)
def test_work_below_its_floor_by_more_than_its_interval_is_flagged(
    tmp_path: Path, device_s: float, expected: list[str]
) -> None:
    row = _row(tmp_path, **BOUNDS, **cuda_clocks(0.24, device_s))
    assert list(row["flags"]) == expected
    assert row["roofline_fraction"] == pytest.approx(0.05 / device_s)


@pytest.mark.parametrize(
    ("dispatch_s", "expected"),
    [(None, []), (0.19, []), (0.21, ["above_ceiling"]), (0.26, [])],
)
def test_on_a_cpu_dispatch_is_not_compared_with_the_floor(
    tmp_path: Path, dispatch_s: float | None, expected: list[str]
) -> None:
    assert list(_row(tmp_path, **BOUNDS, **cpu_clocks(0.25, dispatch_s))["flags"]) == expected
