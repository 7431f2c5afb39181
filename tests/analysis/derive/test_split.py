"""A call and a training step by their parts: worked out by hand, and on a machine that changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.bench.records.results import Record
from modescope.bench.summary import STEP_PARTS
from tests.helpers.derivations import rows_of_each, studies_of, values_of_each
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record, replicates, training

US = 1e-6
END = 7 / 11  # the share of the spread of twelve blocks within their interval
TIMES_US = tuple(range(100, 220, 10))  # of twelve rounds, each at another pace


def _us(*times: float) -> tuple[float, ...]:
    return tuple(time * US for time in times)


def _row(folder: Path, *records: Record) -> dict[str, Any]:
    ((row,),) = studies_of(folder, [records])
    return dict(row)


def test_clocks_are_medians_with_their_intervals(tmp_path: Path) -> None:
    clocks = cuda_clocks(120e-6, 40e-6, 70e-6)
    row = _row(tmp_path, record("eager", 132e-6, 1.0, **clocks))
    assert row["host_s"] == pytest.approx(120e-6)
    assert row["host_ci_low_s"] == pytest.approx(120e-6 * (1 - 0.01 * 7 / 11))  # 3rd of 12
    assert row["host_ci_high_s"] == pytest.approx(120e-6 * (1 + 0.01 * 7 / 11))
    assert row["device_s"] == pytest.approx(40e-6)
    assert row["pipelined_s"] == pytest.approx(120e-6)
    assert row["dispatch_s"] == pytest.approx(70e-6)
    (few,) = rows_of_each(tmp_path / "few", [record(host_rounds_s=(1e-6, 3e-6))])
    assert few["host_s"] == pytest.approx(2e-6)
    assert few["host_ci_low_s"] is None


def test_a_call_on_cuda_is_split_between_host_and_device(tmp_path: Path) -> None:
    clocks = (cuda_clocks(host * US, 40e-6, 70e-6) for host in (120, 60))
    row, odd = rows_of_each(tmp_path, (record("eager", 132e-6, 1.0, **one) for one in clocks))
    names = ("launch", "work", "host_wait", "device_idle")
    assert [row[f"{name}_s"] / US for name in names] == pytest.approx([50, 40, 12, 92], rel=1e-3)
    assert odd["launch_s"] == 0


def test_a_call_on_a_cpu_is_dispatch_and_work(tmp_path: Path) -> None:
    clocks = (cpu_clocks(357e-6, dispatch_s) for dispatch_s in (50e-6, None))
    row, unread = rows_of_each(tmp_path, (record(latency_s=357e-6, **one) for one in clocks))
    assert row["work_s"] == pytest.approx(307e-6, rel=1e-3)
    of_cuda = ("launch_s", "host_wait_s", "device_idle_s", "device_s")
    assert [row[name] for name in of_cuda] == [None] * 4
    assert unread["work_s"] is None


def test_the_bottleneck_of_a_call_is_decided_on_intervals(tmp_path: Path) -> None:
    planted: list[tuple[dict[str, Any], str | None]] = [
        (cpu_clocks(100e-6, 55e-6), "overhead"),
        (cpu_clocks(100e-6, 45e-6), "work"),
        (cpu_clocks(100e-6, 50.2e-6), "undecided"),  # 49.9 to 50.5 %
        (cpu_clocks(100e-6, None), None),
        (cuda_clocks(80e-6, 40e-6), "overhead"),
        (cuda_clocks(40e-6, 80e-6), "work"),
        (cuda_clocks(80e-6, 80.5e-6), "work"),  # host and device are slow in the same rounds
        (cuda_clocks(80e-6, 80.5e-6) | {"device_rounds_s": blocks(80.5e-6)[::-1]}, "undecided"),
        (cuda_clocks(80e-6, None), None),
    ]
    records = (record("eager", 100e-6, 1.0, **columns) for columns, _ in planted)
    found = values_of_each(tmp_path, "bound_by", records)
    assert found == [expected for _, expected in planted]


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


def test_a_ratio_that_is_the_same_in_every_round_has_no_width(tmp_path: Path) -> None:
    row = _row(tmp_path, record("compile", 150 * US, 1.0, **CLOCKS, device="cuda"))
    for end in ("", "_ci_low", "_ci_high"):
        assert {name: row[f"{name}{end}"] for name in PLANTED} == pytest.approx(PLANTED)


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
    assert row["dispatch_share_ci_low"] is None


def test_a_slope_may_be_negative(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "clocks_latency_rounds_s": _us(100, 100, 200),
        "pipelined_rounds_s": _us(-10, 5, -10),
    }
    row = _row(tmp_path, record("eager", 100 * US, 1.0, **columns))
    assert row["pipelined_share"] == pytest.approx(-0.05)


def test_without_the_baselines_clock_there_is_no_gain(tmp_path: Path) -> None:
    gains = {"device": "device_gain", "dispatch": "dispatch_ratio"}
    spoiled = (CLOCKS | {f"baseline_{clock}_rounds_s": None} for clock in gains)
    records = (record("compile", 150 * US, 1.0, **one, device="cuda") for one in spoiled)
    for row, (clock, gain) in zip(rows_of_each(tmp_path, records), gains.items(), strict=True):
        assert row[gain] is None
        assert row[f"{clock}_share"] == pytest.approx(PLANTED[f"{clock}_share"])


def test_a_share_withstands_a_machine_that_changes_its_pace(tmp_path: Path) -> None:
    """Two speeds, 1.75 apart, switch at random between rounds, and once for the whole run.

    Dispatch is a fifth of the call. The clocks ran in slow rounds for the most part, the rounds of
    the speedup in fast ones, so that medians of clocks from different rounds are off by 75 %.
    """
    for row in rows_of_each(tmp_path, map(_unsteady, range(5))):
        assert row["dispatch_s"] / row["latency_s"] > 0.3  # one median ÷ the other
        assert row["dispatch_share"] == pytest.approx(0.2, abs=0.02)
        assert row["host_share"] == pytest.approx(1, abs=0.02)
        assert row["bound_by"] == "work"
        assert list(row["flags"]) == []


def _unsteady(seed: int) -> Record:
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
    return record("eager", 100 * US, 1.0, **columns)


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
    clocks = (cpu_clocks(150 * US, 40 * US), cuda_clocks(300 * US, 40 * US, 70 * US))
    records = (record("eager", 357 * US, 1.0, **one) for one in clocks)
    on_cpu, on_cuda = rows_of_each(tmp_path, records)
    dispatch_s = on_cpu["latency_s"] * on_cpu["dispatch_share"]
    assert dispatch_s + on_cpu["work_s"] == pytest.approx(on_cpu["latency_s"])
    latency_s = on_cuda["latency_s"]
    host = latency_s * on_cuda["dispatch_share"] + on_cuda["launch_s"] + on_cuda["host_wait_s"]
    assert host == pytest.approx(latency_s)
    assert on_cuda["work_s"] + on_cuda["device_idle_s"] == pytest.approx(latency_s)


def test_ratios_of_replicates_are_combined(tmp_path: Path) -> None:
    records = [
        record("eager", 100 * US, 1.0, replicate=number, **cpu_clocks(100 * US, dispatch * US))
        for number, dispatch in enumerate((10, 40))
    ]
    row, without = (only for (only,) in studies_of(tmp_path, [records, replicates(3)]))
    assert row["dispatch_share"] == pytest.approx(0.2)  # the geometric mean of 0.1 and 0.4
    assert (without["dispatch_share"], without["parts_ratio"]) == (None, None)


def test_parts_are_medians_with_their_intervals(tmp_path: Path) -> None:
    parts_s = (400 * US, 600 * US, 200 * US, 50 * US)
    row = _row(tmp_path, training("amp", 1000 * US, parts_s=parts_s, part_spread=0.01))
    for name, seconds in zip(STEP_PARTS, parts_s, strict=True):
        assert row[f"{name}_s"] == pytest.approx(seconds)
        assert row[f"{name}_ci_low_s"] == pytest.approx(seconds * (1 - 0.01 * END))
        assert row[f"{name}_ci_high_s"] == pytest.approx(seconds * (1 + 0.01 * END))


def test_the_ratio_of_the_parts_is_that_of_their_sum(tmp_path: Path) -> None:
    planted = [
        ((400, 600, 200), 1.2),
        ((400, 300, 100), 0.8),
        ((400, 600, 200, 50), 1.25),  # a GradScaler's part is one of them
    ]
    records = (training("eager", 1000 * US, 1.0, _us(*parts)) for parts, _ in planted)
    found = values_of_each(tmp_path, "parts_ratio", records)
    assert found == pytest.approx([ratio for _, ratio in planted], rel=1e-4)


def test_a_scaler_of_unknown_scale_has_its_part(tmp_path: Path) -> None:
    parts_s = (400 * US, 300 * US, 200 * US, 100 * US)
    row = _row(tmp_path, training("amp", 1000 * US, parts_s=parts_s, loss_scale=None))
    assert row["parts_ratio"] == pytest.approx(1, rel=1e-4)


def test_incomplete_parts_are_not_added_up(tmp_path: Path) -> None:
    spoiled: list[dict[str, Any]] = [
        {"forward_rounds_s": None},
        {"backward_rounds_s": None},
        {"optimizer_rounds_s": None},
        {"loss_scale": 1024.0},  # a GradScaler whose part was not read
        {"parts_latency_rounds_s": None},
        {"status": "wrong_result", "reason": "the gradient of a weight is off"},
    ]
    records = [*(training("eager", **columns) for columns in spoiled), record()]
    rows = rows_of_each(tmp_path, records)
    assert {row["parts_ratio"] for row in rows} == {None}
    assert {rows[-1][f"{name}_s"] for name in STEP_PARTS} == {None}


def test_parts_are_compared_with_the_step_of_their_own_process(tmp_path: Path) -> None:
    """Two processes of different speed: in each the parts are 1.2 times the step."""
    slow = training("eager", 2000 * US, 1.0, (800 * US, 1200 * US, 400 * US), replicate=1)
    row = _row(tmp_path, training("eager", 1000 * US, 1.0), slow)
    assert row["replicates"] == 2
    assert row["parts_ratio"] == pytest.approx(1.2, rel=1e-4)
    assert row["forward_s"] == pytest.approx(math.sqrt(400 * 800) * US)
