"""How many cores a process may use, with and without the system's facts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modescope.bench.records.cpu import physical_cores, quota_cores, told_name, usable_cores
from tests.helpers.paths import machine


def test_usable_cores_follow_the_affinity_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert usable_cores() == 8


def test_threads_of_a_physical_core_are_together(tmp_path: Path) -> None:
    siblings = {"0": "0,4", "1": "1,5", "4": "0,4", "5": "1,5"}
    files = {
        f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list": f"{text}\n"
        for core, text in siblings.items()
    }
    root = machine(tmp_path, files)
    assert physical_cores([0, 1, 2, 4, 5], root) == [[0, 4], [1, 5], [2]]
    assert physical_cores([1, 4], root) == [[1], [4]]
    assert physical_cores([0, 4], tmp_path / "nothing") == [[0], [4]]


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/mine\n", {"mine/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/mine\n", {"mine/cpu.max": "max 100000\n", "cpu.max": "50000 100000\n"}, 0.5),
        ("0::/mine\n", {"mine/cpu.max": "max 100000\n"}, None),
        (
            "3:cpu,cpuacct:/mine\n",
            {"cpu/mine/cpu.cfs_quota_us": "200000\n", "cpu/mine/cpu.cfs_period_us": "100000\n"},
            2.0,
        ),
        (
            "3:cpu,cpuacct:/mine\n",
            {"cpu/mine/cpu.cfs_quota_us": "-1\n", "cpu/mine/cpu.cfs_period_us": "100000\n"},
            None,
        ),
    ],
)
def test_usable_cores_follow_the_cgroup_quota(
    cgroup: str, files: dict[str, str], cores: float | None, tmp_path: Path
) -> None:
    limits = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    root = machine(tmp_path, {"proc/self/cgroup": cgroup, **limits})
    assert quota_cores(root) == cores


XEON = "GenuineIntel family 6 model 207 stepping 2"


@pytest.mark.parametrize(
    ("name", "model", "told"),
    [
        ("Intel(R) Xeon(R) Processor", XEON, "Intel Xeon (6/207)"),
        ("AMD EPYC Processor", "AuthenticAMD family 26 model 2 stepping 1", "AMD EPYC (26/2)"),
        ("Intel(R) Xeon(R) Processor", None, "Intel(R) Xeon(R) Processor"),
        ("AMD EPYC 9B45 Processor", XEON, "AMD EPYC 9B45 Processor"),
        ("NVIDIA H100 80GB HBM3", XEON, "NVIDIA H100 80GB HBM3"),
        (None, XEON, None),
    ],
)
def test_a_name_without_a_number_is_told_with_family_and_model(
    name: str | None, model: str | None, told: str | None
) -> None:
    assert told_name(name, model) == told
