"""Flags from stored columns, read back from a file; null columns raise none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.flags import FLAGS
from modescope.analysis.derive.registry import derived
from tests.helpers.studies import record, save

CONDITIONS = ("contended", "throttled", "queue_full")

QUIET: dict[str, Any] = {
    "watched_s": 2.0,
    "cpu_wait_s": 0.001,
    "involuntary_switches": 12,
    "others_cpu_s": 0.02,
    "machine_cores": 2,
    "cgroup_throttled_s": 0.0,
    "device_clock_hz": (1.98e9, 1.98e9, 1.965e9),
    "throttle_reasons": (),
    "gpu_processes": 0,
    "device_calls": 56,
    "device_calls_wanted": 56,
}


def raised(folder: Path, **columns: Any) -> set[str]:
    (row,) = derived(save([record("eager", 1e-4, 1.0, **columns)], folder)).to_dict("records")
    return set(row["flags"]) & set(CONDITIONS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"cpu_wait_s": 0.05}, {"contended"}),
        ({"others_cpu_s": 1.9}, {"contended"}),
        ({"cgroup_throttled_s": 0.3}, {"contended"}),
        ({"gpu_processes": 1}, {"contended"}),
        ({"device_clock_hz": (1.98e9, 1.98e9, 1.5e9)}, {"throttled"}),
        ({"throttle_reasons": ("sw_power_cap",)}, {"throttled"}),
        ({"throttle_reasons": ("cpu_thermal",), "device_clock_hz": None}, {"throttled"}),
        ({"device_calls": 12}, {"queue_full"}),
        (dict.fromkeys(QUIET), set()),  # as in files older than these columns
        ({"device_calls": None}, set()),
        ({"cpu_wait_s": 0.05, "throttle_reasons": ("hw_thermal",), "device_calls": 3},
         {"contended", "throttled", "queue_full"}),
    ],
    ids=lambda names: ",".join(sorted(names)) or "nothing",
)  # fmt: skip
def test_each_condition_is_raised_by_its_columns(
    tmp_path: Path, changes: dict[str, Any], expected: set[str]
) -> None:
    assert raised(tmp_path, **(QUIET | changes)) == expected


def test_runs_without_a_timing_have_no_conditions(tmp_path: Path) -> None:
    busy = QUIET | {"cpu_wait_s": 1.0}
    assert raised(tmp_path / "smoke", **busy, budget="smoke") == set()
    wrong = {"status": "wrong_result", "reason": "why"}
    assert raised(tmp_path / "wrong", **busy, **wrong) == set()


def test_every_condition_is_explained_by_the_columns_to_look_at() -> None:
    assert set(CONDITIONS) <= set(FLAGS)
    named = {
        name: [column for column in QUIET if column in FLAGS[name].meaning] for name in CONDITIONS
    }
    assert all(named.values()), named
