"""Clocks against profiler: when they disagree, and columns derived from both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive import profile
from modescope.analysis.derive.profile import DOUBTS
from modescope.analysis.derive.registry import derived
from modescope.analysis.format import phrases
from tests.helpers.pass_columns import profiled
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record, save


def _row(folder: Path, **columns: Any) -> dict[str, Any]:
    (row,) = derived(save([record("eager", 1e-4, 1.0, **columns)], folder)).to_dict("records")
    return {str(name): value for name, value in row.items()}


@pytest.mark.parametrize(
    ("dispatch_s", "kernels_s", "expected"),
    [
        (10e-6, 90e-6, False),
        (10e-6, 103e-6, False),  # 14 % more than 90
        (10e-6, 104.5e-6, True),  # 16 % more
        (10e-6, 77e-6, False),
        (10e-6, 75.5e-6, True),
        (16e-6, 100e-6, True),
        (18e-6, 100e-6, False),  # more than a sixth: kernels may contain that much of dispatch
        (None, 10e-6, False),
        (10e-6, None, False),
    ],
)
def test_a_work_bound_call_is_checked_against_its_kernels(
    tmp_path: Path, dispatch_s: float | None, kernels_s: float | None, expected: bool
) -> None:
    profile = profiled(9, kernels_s) if kernels_s else {}
    columns = cpu_clocks(1e-4, dispatch_s, spread=0) | profile
    assert _row(tmp_path, **columns)["flags"] == (["split_disagrees"] if expected else [])


def test_kernels_are_compared_with_the_unrecorded_calls_beside_them(tmp_path: Path) -> None:
    """The machine was 1.75 times slower in half of the profiled calls, and beside them."""
    paces = np.where(np.arange(24) % 2, 1.75, 1.0)
    columns = cpu_clocks(1e-4, 10e-6) | {"profiled_kernels_rounds_s": tuple(90e-6 * paces)}
    beside = _row(tmp_path / "beside", **columns, profiled_latency_rounds_s=tuple(1e-4 * paces))
    assert beside["flags"] == []
    assert beside["residual_s"] == pytest.approx(0, abs=1e-7)
    before = _row(tmp_path / "before", **columns, profiled_latency_rounds_s=(1e-4,) * 24)
    assert before["residual_s"] == pytest.approx(-0.375 * 90e-6, rel=1e-2)


@pytest.mark.parametrize(
    ("turns", "spread", "expected"),
    [
        (24, 0.02, True),
        (24, 0.3, False),  # the interval includes the limit
        (11, 0.3, True),  # too few for an interval
    ],
)
@pytest.mark.parametrize("shown", [0.8, 1.2])
def test_the_whole_interval_must_lie_beyond_the_limit(
    tmp_path: Path, turns: int, spread: float, expected: bool, shown: float
) -> None:
    kernels_s = blocks(90e-6 * shown, count=turns, spread=spread)
    planted = {
        "profiled_kernels_rounds_s": kernels_s,
        "profiled_latency_rounds_s": (1e-4,) * turns,
    }
    row = _row(tmp_path, **cpu_clocks(1e-4, 10e-6), **planted)
    assert ("split_disagrees" in row["flags"]) is expected
    assert row["residual_s"] == pytest.approx(90e-6 * (1 - shown), rel=1e-2)


def test_the_interval_of_dispatch_counts_as_well(tmp_path: Path) -> None:
    """Dispatch is 6 to 14 % of the call. Kernels of 104 % are 111 % of the work if it is 94 %."""
    wide = cpu_clocks(1e-4, 10e-6) | {"dispatch_rounds_s": blocks(10e-6, count=24, spread=0.9)}
    row = _row(tmp_path, **wide, **profiled(9, 90e-6 * 1.16))
    assert row["flags"] == []


def test_without_calls_beside_the_profiled_ones_the_split_is_not_checked(tmp_path: Path) -> None:
    columns = cpu_clocks(1e-4, 10e-6) | profiled(9, 50e-6) | {"profiled_latency_rounds_s": None}
    row = _row(tmp_path, **columns)
    assert "split_disagrees" not in row["flags"]
    assert math.isnan(row["residual_s"])


@pytest.mark.parametrize(
    "columns",
    [{"budget": "smoke"}, {"status": "wrong_result", "reason": "why"}, cuda_clocks(60e-6, 90e-6)],
    ids=["smoke", "wrong", "cuda"],
)
def test_an_inconclusive_split_is_not_checked(tmp_path: Path, columns: dict[str, Any]) -> None:
    clocks = cpu_clocks(1e-4, 10e-6) | profiled(9, 50e-6) | columns
    assert "split_disagrees" not in _row(tmp_path, **clocks)["flags"]


def test_each_process_is_checked_separately(tmp_path: Path) -> None:
    clocks = cpu_clocks(1e-4, 10e-6)
    processes = [
        record("eager", 1e-4, 1.0, replicate=number, **clocks, **profile)
        for number, profile in enumerate((profiled(9, 90e-6), profiled(9, 50e-6), {}))
    ]
    assert list(derived(save(processes, tmp_path))["flags"][0]) == ["split_disagrees"]


def test_shares_of_all_processes_are_combined(tmp_path: Path) -> None:
    """Two processes of different speed: the profiler saw 0.81 and 1 of the work of each."""
    clocks = [cuda_clocks(60e-6, device_s) for device_s in (40e-6, 50e-6)]
    seen = [profiled(9, busy_s) for busy_s in (40e-6 * 0.81, 50e-6)]
    records = [
        record(
            "eager", latency_s, 1.0, replicate=number, spread=0, **clocks[number], **seen[number]
        )
        for number, latency_s in enumerate((100e-6, 125e-6))
    ]
    (row,) = derived(save(records, tmp_path)).to_dict("records")
    assert row["residual_s"] == pytest.approx((40e-6 * 50e-6) ** 0.5 * (1 - 0.9), rel=1e-3)
    # busy for 0.324 and 0.4 of the call
    assert row["device_idle_fraction"] == pytest.approx(1 - (0.324 * 0.4) ** 0.5, rel=1e-3)


def test_on_a_cpu_kernels_are_compared_with_the_clocks_of_their_process(tmp_path: Path) -> None:
    """One process is twice as slow; with the kernels of the other the residual would be large."""
    records = [
        record("eager", 1e-4 * pace, 1.0, replicate=number,
               **cpu_clocks(1e-4 * pace, 1e-5 * pace), **profiled(9, 0.9e-4 * pace * 0.98))
        for number, pace in enumerate((1, 2))
    ]  # fmt: skip
    (row,) = derived(save(records, tmp_path)).to_dict("records")
    assert row["residual_s"] == pytest.approx(0.9e-4 * 2**0.5 * 0.02, rel=1e-3)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (cpu_clocks(1e-4, 16e-6) | profiled(9, 90e-6), True),
        (cpu_clocks(1e-4, 17e-6) | profiled(9, 90e-6), False),  # more than a sixth
        (cpu_clocks(1e-4, 16e-6), False),
        (cpu_clocks(1e-4, None) | profiled(9, 90e-6), False),
        (cpu_clocks(1e-4, 101e-6) | profiled(9, 90e-6), False),
        (cuda_clocks(60e-6, 40e-6) | profiled(9, 36e-6), True),
        (cuda_clocks(60e-6, 40e-6), False),
    ],
)
def test_a_split_is_checked_only_where_kernels_are_the_work(
    tmp_path: Path, columns: dict[str, Any], expected: bool
) -> None:
    rows = derived(save([record("eager", 1e-4, 1.0, **columns)], tmp_path))
    assert profile.is_checked(phrases.as_rows(rows)[0]) is expected


def test_the_residual_is_work_without_a_profiled_kernel(tmp_path: Path) -> None:
    on_cpu = _row(tmp_path / "cpu", **cpu_clocks(1e-4, 10e-6), **profiled(9, 95e-6))
    assert on_cpu["residual_s"] == pytest.approx(-5e-6, abs=1e-7)
    clocks = cuda_clocks(60e-6, 40e-6)
    overlapping = profiled(9, 50e-6, device_busy_s=36e-6)  # two streams
    assert _row(tmp_path / "cuda", **clocks, **overlapping)["residual_s"] == pytest.approx(4e-6)
    assert math.isnan(_row(tmp_path / "none", **clocks)["residual_s"])


def test_the_idle_fraction_is_the_share_of_latency_without_device_work(tmp_path: Path) -> None:
    clocks = cuda_clocks(90e-6, 40e-6)
    busy = _row(tmp_path / "some", **clocks, **profiled(9, 35e-6))
    assert busy["device_idle_fraction"] == pytest.approx(0.65, rel=1e-3)
    longer = _row(tmp_path / "longer", **clocks, **profiled(9, 120e-6))
    assert longer["device_idle_fraction"] == 0
    on_cpu = _row(tmp_path / "cpu", **cpu_clocks(1e-4, 10e-6), **profiled(9, 90e-6))
    assert math.isnan(on_cpu["device_idle_fraction"])
    assert math.isnan(_row(tmp_path / "none", **clocks)["device_idle_fraction"])


@pytest.mark.parametrize("flag", sorted(DOUBTS))
def test_an_implausible_profile_gives_no_columns(tmp_path: Path, flag: str) -> None:
    row = _row(tmp_path, **cuda_clocks(90e-6, 40e-6), **profiled(9, 35e-6), flags=(flag,))
    assert math.isnan(row["device_idle_fraction"])
    assert math.isnan(row["residual_s"])
