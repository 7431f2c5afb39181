"""The GPUs of a machine as nvidia-smi lists them, and the cores of their processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modescope.bench.cluster import gpus

LISTED = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a0)
  MIG 1g.10gb     Device  0: (UUID: MIG-a1)
  MIG 1g.10gb     Device  1: (UUID: MIG-a2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b0)
"""


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, ["GPU-a0", "GPU-b0"]),
        ("1,0", ["GPU-b0", "GPU-a0"]),
        ("MIG-a2, GPU-b0", ["MIG-a2", "GPU-b0"]),
        ("1,7,0", ["GPU-b0"]),
        ("", []),
    ],
)
def test_gpus_that_cuda_visible_devices_allows(
    allowed: str | None, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<E\n{LISTED}E\n")
    program.chmod(0o755)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if allowed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    assert gpus.visible_gpus() == expected
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.visible_gpus() == []  # without a driver


@pytest.mark.parametrize(
    ("whole", "count", "expected"),
    [
        ([[0, 4], [1, 5], [2, 6], [3, 7]], 2, [(0, 4, 1, 5), (2, 6, 3, 7)]),
        ([[0, 2], [1, 3]], 4, [(0,), (1,), (2,), (3,)]),
        ([[0], [1]], 4, [(0,), (1,), (0, 1), (0, 1)]),
    ],
    ids=["whole cores", "threads of cores", "fewer cores than GPUs"],
)
def test_processes_share_no_core_where_there_are_enough(
    whole: list[list[int]], count: int, expected: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    usable = sorted(core for part in whole for core in part)
    monkeypatch.setattr(gpus, "which_cores", lambda: usable)
    monkeypatch.setattr(gpus, "physical_cores", lambda cores: whole)
    assert gpus.share_cores(count) == expected
