"""A call and a training step by their parts: worked out by hand, and on a machine that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.derivations import values_of_each
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
