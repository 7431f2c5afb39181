"""Ratios within rounds: worked out by hand from planted rounds, and on a machine that changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive.registry import derived
from modescope.bench.records.results import Record
from tests.helpers.studies import cpu_clocks, cuda_clocks, record, replicates, save, training

US = 1e-6
TIMES_US = tuple(range(100, 220, 10))  # of twelve rounds, each at another pace


def _us(*times: float) -> tuple[float, ...]:
    return tuple(time * US for time in times)


def _row(folder: Path, one: Record) -> dict[str, Any]:
    (row,) = derived(save([one], folder)).to_dict("records")
    return {str(name): value for name, value in row.items()}


CLOCKS: dict[str, Any] = {
    "clocks_latency_rounds_s": _us(*TIMES_US),
    "host_rounds_s": _us(*(time * 0.9 for time in TIMES_US)),
    "pipelined_rounds_s": _us(*(time * 0.95 for time in TIMES_US)),
    "device_rounds_s": _us(*(time * 0.3 for time in TIMES_US)),
    "dispatch_rounds_s": _us(*(time * 0.2 for time in TIMES_US)),
    "baseline_device_rounds_s": _us(*(time * 0.6 for time in TIMES_US)),
    "baseline_dispatch_rounds_s": _us(*(time * 0.25 for time in TIMES_US)),
}
PLANTED = {
    "host_share": 0.9,
    "pipelined_share": 0.95,
    "device_share": 0.3,
    "dispatch_share": 0.2,
    "host_per_device": 3.0,
    "device_gain": 2.0,
    "dispatch_ratio": 1.25,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_ratio_that_is_the_same_in_every_round_has_no_width(tmp_path: Path, name: str) -> None:
    row = _row(tmp_path, record("compile", 150 * US, 1.0, **CLOCKS, device="cuda"))
    for end in ("", "_ci_low", "_ci_high"):
        assert row[f"{name}{end}"] == pytest.approx(PLANTED[name])


def test_a_ratio_has_the_order_statistic_interval_of_its_rounds(tmp_path: Path) -> None:
    """Latencies of 100 us; dispatch of 1 ... 12 us in some order: the interval is [x(3), x(10)]."""
    dispatch = _us(7, 1, 12, 3, 9, 5, 11, 2, 8, 4, 10, 6)
    latency = _us(*(100,) * 12)
    columns: dict[str, Any] = {"clocks_latency_rounds_s": latency, "dispatch_rounds_s": dispatch}
    row = _row(tmp_path, record("eager", 100 * US, 1.0, **columns))
    assert row["dispatch_share"] == pytest.approx(0.065)
    assert row["dispatch_share_ci_low"] == pytest.approx(0.03)
    assert row["dispatch_share_ci_high"] == pytest.approx(0.10)


def test_a_clock_that_ended_early_is_related_to_the_rounds_it_has(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "clocks_latency_rounds_s": _us(100, 200, 400, 1, 1),
        "dispatch_rounds_s": _us(10, 20, 80),
    }
    row = _row(tmp_path, record("eager", 100 * US, 1.0, **columns))
    assert row["dispatch_share"] == pytest.approx(0.1)
    assert math.isnan(row["dispatch_share_ci_low"])


def test_a_slope_may_be_negative(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "clocks_latency_rounds_s": _us(100, 100, 200),
        "pipelined_rounds_s": _us(-10, 5, -10),
    }
    row = _row(tmp_path, record("eager", 100 * US, 1.0, **columns))
    assert row["pipelined_share"] == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("clock", "gain"), [("device", "device_gain"), ("dispatch", "dispatch_ratio")]
)
def test_without_the_baselines_clock_there_is_no_gain(
    tmp_path: Path, clock: str, gain: str
) -> None:
    columns = CLOCKS | {f"baseline_{clock}_rounds_s": None, "device": "cuda"}
    row = _row(tmp_path, record("compile", 150 * US, 1.0, **columns))
    assert math.isnan(row[gain])
    assert row[f"{clock}_share"] == pytest.approx(PLANTED[f"{clock}_share"])


@pytest.mark.parametrize("seed", range(5))
def test_a_share_withstands_a_machine_that_changes_its_pace(tmp_path: Path, seed: int) -> None:
    """Two speeds, 1.75 apart, switch at random between rounds, and once for the whole run.

    Dispatch is a fifth of the call. The clocks ran in slow rounds for the most part, the rounds of
    the speedup in fast ones, so that medians of clocks from different rounds are off by 75 %.
    """
    random = np.random.default_rng(seed)
    slow = random.permutation(np.arange(30) % 3 > 0)  # two thirds of the rounds of the clocks
    pace = np.where(slow, 1.75, 1.0)
    noise = random.normal(1, 0.01, (3, 30))
    columns = cpu_clocks(100 * US, None) | {
        "clocks_latency_rounds_s": tuple(100 * US * pace * noise[0]),
        "host_rounds_s": tuple(100 * US * pace * noise[1]),
        "pipelined_rounds_s": tuple(100 * US * pace * noise[1]),
        "dispatch_rounds_s": tuple(20 * US * pace * noise[2]),
    }
    row = _row(tmp_path, record("eager", 100 * US, 1.0, **columns))
    assert row["dispatch_s"] / row["latency_s"] > 0.3  # one median ÷ the other
    assert row["dispatch_share"] == pytest.approx(0.2, abs=0.02)
    assert row["host_share"] == pytest.approx(1, abs=0.02)
    assert row["bound_by"] == "work"
    assert list(row["flags"]) == []


def test_the_parts_of_a_step_withstand_it_too(tmp_path: Path) -> None:
    """In each block the parts are 1.1 times the step; half of the blocks ran at 1 ÷ 1.75."""
    pace = np.random.default_rng(0).permutation(np.where(np.arange(24) % 4, 1.75, 1.0))
    planted = {"forward": 300, "backward": 600, "optimizer": 200, "parts_latency": 1000}
    columns: dict[str, Any] = {
        f"{name}_rounds_s": tuple(time * US * pace) for name, time in planted.items()
    }
    row = _row(tmp_path, training("eager", 1000 * US, 1.0, **columns))
    assert row["parts_ratio"] == pytest.approx(1.1)
    assert row["parts_ratio_ci_low"] == row["parts_ratio_ci_high"] == pytest.approx(1.1)
    assert row["backward_share"] == pytest.approx(0.6)
    assert row["forward_s"] / row["latency_s"] > 0.5


def test_the_parts_of_a_call_add_up_to_its_latency(tmp_path: Path) -> None:
    on_cpu = _row(tmp_path / "cpu", record("eager", 357 * US, 1.0, **cpu_clocks(150 * US, 40 * US)))
    dispatch_s = on_cpu["latency_s"] * on_cpu["dispatch_share"]
    assert dispatch_s + on_cpu["work_s"] == pytest.approx(on_cpu["latency_s"])
    on_cuda = _row(
        tmp_path / "cuda",
        record("eager", 357 * US, 1.0, **cuda_clocks(300 * US, 40 * US, 70 * US)),
    )
    latency_s = on_cuda["latency_s"]
    host = latency_s * on_cuda["dispatch_share"] + on_cuda["launch_s"] + on_cuda["host_wait_s"]
    assert host == pytest.approx(latency_s)
    assert on_cuda["work_s"] + on_cuda["device_idle_s"] == pytest.approx(latency_s)


def test_ratios_of_replicates_are_combined(tmp_path: Path) -> None:
    records = [
        record("eager", 100 * US, 1.0, replicate=number, **cpu_clocks(100 * US, dispatch * US))
        for number, dispatch in enumerate((10, 40))
    ]
    (row,) = derived(save(records, tmp_path)).to_dict("records")
    assert row["dispatch_share"] == pytest.approx(0.2)  # the geometric mean of 0.1 and 0.4


def test_the_pace_of_a_run_is_the_slowest_level_against_the_fastest(tmp_path: Path) -> None:
    """Of 101 rounds three were interrupted, and one read far too short: no level of the machine."""
    paces = _us(*(40,) * 57, *(70,) * 40, 5, 900, 900, 900)
    times = _us(*(100,) * 101)
    columns: dict[str, Any] = {"latency_rounds_s": times, "baseline_latency_rounds_s": times}
    row = _row(tmp_path, record("eager", 100 * US, 1.0, pace_rounds_s=paces, **columns))
    assert row["pace_slowest"] == pytest.approx(40 / 70)


def test_latency_at_full_pace_compares_rows_at_the_fastest_pace_seen(tmp_path: Path) -> None:
    """One run at 70, the other at 40 us: its latencies are 1.75 times as long for that reason."""
    slow = _at_pace("eager", 175 * US, 70 * US)
    fast = _at_pace("compile", 100 * US, 40 * US)
    elsewhere = _at_pace("eager", 100 * US, 20 * US, environment_id="env-2")
    rows = derived(save([slow, fast, elsewhere], tmp_path))
    at_full = rows.set_index(["environment", "mode"])["latency_at_full_pace_s"]
    assert at_full["A", "eager"] == pytest.approx(100 * US, rel=1e-3)
    assert at_full["A", "compile"] == pytest.approx(100 * US, rel=1e-3)
    assert at_full["B", "eager"] == pytest.approx(100 * US, rel=1e-3)
    paces = rows.set_index(["environment", "mode"])["pace"]
    assert paces["A", "eager"] == pytest.approx(40 / 70)
    assert paces["A", "compile"] == paces["B", "eager"] == pytest.approx(1.0)


def _at_pace(mode: str, latency_s: float, pace_s: float, **columns: Any) -> Record:
    return record(mode, latency_s, 1.0, spread=0, pace_rounds_s=(pace_s,) * 40, **columns)


def test_each_round_has_its_own_pace(tmp_path: Path) -> None:
    """Two thirds of the rounds were slow; at full pace each would have taken 100 us."""
    pace = np.where(np.arange(42) % 3, 1.75, 1.0)
    times = tuple(100 * US * pace)
    columns: dict[str, Any] = {"latency_rounds_s": times, "baseline_latency_rounds_s": times}
    row = _row(tmp_path, record("eager", pace_rounds_s=tuple(40 * US * pace), **columns))
    assert row["latency_s"] == pytest.approx(175 * US)
    assert row["latency_at_full_pace_s"] == pytest.approx(100 * US)


def test_without_a_pace_it_is_unknown(tmp_path: Path) -> None:
    row = _row(tmp_path, record(pace_rounds_s=None))
    assert math.isnan(row["pace"])
    assert math.isnan(row["pace_slowest"])
    assert math.isnan(row["latency_at_full_pace_s"])


def test_replicates_without_clocks_combine(tmp_path: Path) -> None:
    (row,) = derived(save(replicates(3), tmp_path)).to_dict("records")
    assert math.isnan(row["dispatch_share"])
