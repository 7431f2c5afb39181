"""The floor of a call's work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.flags import BEATEN
from modescope.analysis.format.phrases import Row
from tests.helpers.derivations import rows_of_each
from tests.helpers.pass_columns import BOUNDS
from tests.helpers.studies import cpu_clocks, cuda_clocks, record


def _rows(folder: Path, *changes: dict[str, Any]) -> list[Row]:
    records = (record("eager", 0.25, 1.0, **(BOUNDS | columns)) for columns in changes)
    return rows_of_each(folder, records)


def test_the_floor_is_the_longer_of_arithmetic_and_traffic(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [{}, {"flops": 20_000_000_000}, {"flops": 0}]  # no matmuls
    found = [(row["floor_s"], row["floor_bound"]) for row in _rows(tmp_path, *changes)]
    expected = [(0.05, "memory"), (0.2, "compute"), (0.05, "memory")]
    assert found == [(pytest.approx(floor_s), bound) for floor_s, bound in expected]


def test_the_floor_is_unknown_without_one_of_its_four_inputs(tmp_path: Path) -> None:
    rows = _rows(tmp_path, *({name: None} | cpu_clocks(0.25, 0.05) for name in BOUNDS))
    names = ("floor_s", "floor_bound", "roofline_fraction")
    assert {row[name] for row in rows for name in names} == {None}


def test_the_roofline_fraction_refers_to_work_not_latency(tmp_path: Path) -> None:
    on_cpu = (cpu_clocks(0.25, dispatch_s) for dispatch_s in (0.05, None, 0.26))
    rows = _rows(tmp_path, *on_cpu, cuda_clocks(0.01, 0.1))
    assert [row["roofline_fraction"] for row in rows] == [
        pytest.approx(0.05 / 0.2, rel=1e-3), None, None, pytest.approx(0.05 / 0.1),
    ]  # fmt: skip


END = 0.01 * 7 / 11  # of the interval of twelve blocks


def test_work_below_its_floor_by_more_than_its_interval_is_flagged(tmp_path: Path) -> None:
    beaten = {
        0.06: False,
        0.05 / (1 + END) * 1.001: False,  # its interval reaches the floor
        0.05 / (1 + END) * 0.999: True,
        0.01: True,
    }
    rows = _rows(tmp_path, *(cuda_clocks(0.24, device_s) for device_s in beaten))
    assert [list(row["flags"]) == [BEATEN] for row in rows] == list(beaten.values())
    fractions = [0.05 / device_s for device_s in beaten]
    assert [row["roofline_fraction"] for row in rows] == pytest.approx(fractions)


def test_on_a_cpu_dispatch_is_not_compared_with_the_floor(tmp_path: Path) -> None:
    beaten = {None: [], 0.19: [], 0.21: [BEATEN], 0.26: []}
    rows = _rows(tmp_path, *(cpu_clocks(0.25, dispatch_s) for dispatch_s in beaten))
    assert [list(row["flags"]) for row in rows] == list(beaten.values())
