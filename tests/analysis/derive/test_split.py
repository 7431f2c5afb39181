"""A call and a training step by their parts: worked out by hand, and on a machine that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.bench.records.results import Record
from tests.helpers.derivations import rows_of_each, values_of_each
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record, training

US = 1e-6


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


def test_launching_is_never_negative(tmp_path: Path) -> None:
    clocks = cuda_clocks(60e-6, 40e-6, 70e-6)
    assert values_of_each(tmp_path, "launch_s", [record("eager", 132e-6, 1.0, **clocks)]) == [0]


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


def test_incomplete_parts_are_not_added_up(tmp_path: Path) -> None:
    spoiled: list[dict[str, Any]] = [
        {"forward_rounds_s": None},
        {"backward_rounds_s": None},
        {"optimizer_rounds_s": None},
        {"loss_scale": 1024.0},  # a GradScaler whose part was not read
        {"parts_latency_rounds_s": None},
        {"status": "wrong_result", "reason": "the gradient of a weight is off"},
    ]
    # A scaler of unknown scale has its part
    parts_s = (400 * US, 300 * US, 200 * US, 100 * US)
    scaled = training("amp", 1000 * US, parts_s=parts_s, loss_scale=None)
    records = [*(training("eager", **columns) for columns in spoiled), record(), scaled]
    *none, whole = values_of_each(tmp_path, "parts_ratio", records)
    assert set(none) == {None}
    assert whole == pytest.approx(1, rel=1e-4)
