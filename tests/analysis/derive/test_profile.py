"""Profile and clocks: when they disagree, columns of both, compiled calls, heaviest kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive.profile import DOUBTS
from modescope.analysis.rows.type import Row
from tests.helpers.derivations import rows_of_each
from tests.helpers.pass_columns import profiled
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record

DISAGREES = "split_disagrees"


def _rows(folder: Path, *changes: dict[str, Any]) -> list[Row]:
    return rows_of_each(folder, (record("eager", 1e-4, 1.0, **columns) for columns in changes))


def test_a_work_bound_call_is_checked_against_its_kernels(tmp_path: Path) -> None:
    planted: list[tuple[float | None, float | None, bool]] = [
        (10e-6, 90e-6, False),
        (10e-6, 103e-6, False),  # 14 % more than 90
        (10e-6, 104.5e-6, True),  # 16 % more
        (10e-6, 77e-6, False),
        (10e-6, 75.5e-6, True),
        (16e-6, 100e-6, True),
        (18e-6, 100e-6, False),  # more than a sixth: kernels may contain that much of dispatch
        (None, 10e-6, False),
        (10e-6, None, False),
    ]
    columns = (
        cpu_clocks(1e-4, dispatch_s, spread=0) | (profiled(9, kernels_s) if kernels_s else {})
        for dispatch_s, kernels_s, _ in planted
    )
    flagged = [list(row["flags"]) == [DISAGREES] for row in _rows(tmp_path, *columns)]
    assert flagged == [expected for *_, expected in planted]


def test_kernels_are_compared_with_the_unrecorded_calls_beside_them(tmp_path: Path) -> None:
    """The machine was 1.75 times slower in half of the profiled calls, and beside them."""
    paces = np.where(np.arange(24) % 2, 1.75, 1.0)
    columns = cpu_clocks(1e-4, 10e-6) | {"profiled_kernels_rounds_s": tuple(90e-6 * paces)}
    turns = (tuple(1e-4 * paces), (1e-4,) * 24)
    each = (columns | {"profiled_latency_rounds_s": latencies_s} for latencies_s in turns)
    beside, before = _rows(tmp_path, *each)
    assert beside["flags"] == []
    assert beside["residual_s"] == pytest.approx(0, abs=1e-7)
    assert before["residual_s"] == pytest.approx(-0.375 * 90e-6, rel=1e-2)


def test_the_whole_interval_must_lie_beyond_the_limit(tmp_path: Path) -> None:
    planted = [
        (24, 0.02, True),
        (24, 0.3, False),  # the interval includes the limit
        (11, 0.3, True),  # too few for an interval
    ]
    for shown in (0.8, 1.2):
        columns = (
            cpu_clocks(1e-4, 10e-6)
            | {
                "profiled_kernels_rounds_s": blocks(90e-6 * shown, count=turns, spread=spread),
                "profiled_latency_rounds_s": (1e-4,) * turns,
            }
            for turns, spread, _ in planted
        )
        rows = _rows(tmp_path / f"{shown}", *columns)
        assert [DISAGREES in row["flags"] for row in rows] == [flagged for *_, flagged in planted]
        residuals = [90e-6 * (1 - shown)] * 3
        assert [row["residual_s"] for row in rows] == pytest.approx(residuals, rel=1e-2)


def test_an_inconclusive_split_is_not_checked(tmp_path: Path) -> None:
    """Nor is one without calls beside the profiled ones.

    Dispatch is 6 to 14 % of the last call. Kernels of 104 % are 111 % of the work if it is 94 %.
    """
    clocks, seen = cpu_clocks(1e-4, 10e-6), profiled(9, 50e-6)
    wide = {"dispatch_rounds_s": blocks(10e-6, count=24, spread=0.9)}
    rows = _rows(
        tmp_path,
        clocks | seen | {"profiled_latency_rounds_s": None},
        clocks | seen | {"budget": "smoke"},
        clocks | seen | {"status": "wrong_result", "reason": "why"},
        clocks | seen | cuda_clocks(60e-6, 90e-6),
        clocks | wide | profiled(9, 90e-6 * 1.16),
    )
    assert [DISAGREES in row["flags"] for row in rows] == [False] * 5
    assert rows[0]["residual_s"] is None


def test_residual_and_idle_fraction_of_odd_profiles(tmp_path: Path) -> None:
    clocks = cuda_clocks(90e-6, 40e-6)
    doubted = clocks | profiled(9, 35e-6)
    overlapping, longer, none, *implausible = _rows(
        tmp_path,
        clocks | profiled(9, 50e-6, device_busy_s=36e-6),  # two streams
        clocks | profiled(9, 120e-6),
        clocks,
        *(doubted | {"flags": (flag,)} for flag in sorted(DOUBTS)),
    )
    assert overlapping["residual_s"] == pytest.approx(4e-6)
    assert longer["device_idle_fraction"] == 0
    for row in (none, *implausible):
        assert (row["device_idle_fraction"], row["residual_s"]) == (None, None)
