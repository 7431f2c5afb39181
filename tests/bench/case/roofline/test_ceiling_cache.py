"""Ceilings are measured once, and cached unless other processes disturbed them."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from modescope.bench.case.roofline import ceiling_cache
from modescope.bench.devices.allocators import CpuAllocator
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.columns import Contention
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import contention


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The measured dtypes; the first has a ceiling of 1, the second of 2, ..."""
    made: list[str] = []

    def measure(device: Cpu, dtype: str) -> Ceilings:
        made.append(dtype)
        return Ceilings(float(len(made)), ((2**20, 3.0), (2**22, 1.0)))

    monkeypatch.setattr(ceiling_cache, "measure", measure)
    share_the_machine(False, monkeypatch)
    return made


def share_the_machine(felt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others use half of a core, or nothing, over ten seconds on two cores."""
    seen = Contention(10.0, 0.0, 0, 5.0 if felt else 0.0, 2, 0.0)
    monkeypatch.setattr(contention, "between", lambda before, after: seen)


def flops_per_s(file: Path, dtype: str = "fp32") -> float | None:
    return ceiling_cache.ceilings(Cpu(), dtype, file).ceilings.flops_per_s


def test_ceilings_are_measured_once_per_dtype_and_threads(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "ceilings.json"
    first = ceiling_cache.ceilings(Cpu(), "fp32", file)
    assert ceiling_cache.ceilings(Cpu(), "fp32", file) == first
    assert flops_per_s(file, "bf16") == 2.0
    assert ceiling_cache.ceilings(Cpu(), "fp32", file) == first
    assert measurements == ["fp32", "bf16"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 61)
    assert flops_per_s(file) == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["ceilings.json"]


def test_cached_ceilings_have_their_time_torch_and_contention(
    measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    found = ceiling_cache.ceilings(Cpu(), "fp32", file)
    (entry,) = json.loads(file.read_text()).values()
    assert entry == json.loads(json.dumps(asdict(found.ceilings))) | {
        "measured_at": found.measured_at,
        "torch_version": torch.__version__,
        "contended": False,
        "seen": {**asdict(Contention(10.0, 0.0, 0, 0.0, 2, 0.0)), "gpu_processes": None},
    }
    age = datetime.now(UTC) - datetime.fromisoformat(found.measured_at)
    assert 0 <= age.total_seconds() < 600
    assert found.note is None


def test_contended_ceilings_are_used_once_and_not_cached(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ceilings.json"
    share_the_machine(True, monkeypatch)
    found = ceiling_cache.ceilings(Cpu(), "fp32", file)
    assert (found.ceilings.flops_per_s, found.note) == (1.0, ceiling_cache.CONTENDED)
    assert not file.exists()
    share_the_machine(False, monkeypatch)
    assert flops_per_s(file) == flops_per_s(file) == 2.0
    assert measurements == ["fp32", "fp32"]


def test_another_process_on_the_gpu_makes_ceilings_contended(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process starts during the measurement."""
    users = iter([0, 1])
    monkeypatch.setattr(Cpu, "other_processes", lambda self: next(users))
    assert ceiling_cache.ceilings(Cpu(), "fp32", tmp_path / "ceilings.json").contended


def test_the_allocators_cache_is_released_around_the_measurement(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is released before large buffers are allocated, and after."""
    released: list[int] = []
    monkeypatch.setattr(
        CpuAllocator, "release_unused", lambda self: released.append(len(measurements))
    )
    for _ in range(2):  # the second time the cache is used
        ceiling_cache.ceilings(Cpu(), "fp32", tmp_path / "ceilings.json")
    assert released == [0, 1]


OLD_ENTRY = '{"flops_per_s": 1, "copies": [[1048576, 2.0]]}'


@pytest.mark.parametrize(
    "content",
    [
        *("", "[1, 2]", "null", '{"a": {}}', '{"a": {"flops_per_s": 1, "transfers"'),
        *('{"a": 3}', f'{{"old": {OLD_ENTRY}}}'),
    ],
)
def test_an_invalid_cache_file_is_measured_again(
    content: str, measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(content)
    assert flops_per_s(file) == flops_per_s(file) == 1.0
    assert measurements == ["fp32"]
    assert len(json.loads(file.read_text())) == 1


def test_valid_entries_of_a_cache_file_are_kept(measurements: list[str], tmp_path: Path) -> None:
    """An entry of an older version lacks the time of measurement and the contention."""
    file = tmp_path / "ceilings.json"
    flops_per_s(file, "fp32")
    entries = json.loads(file.read_text())
    (key,) = entries
    older = {key.replace("fp32", "bf16"): json.loads(OLD_ENTRY)}
    file.write_text(json.dumps(older | entries))
    assert [flops_per_s(file, dtype) for dtype in ("bf16", "fp32")] == [2.0, 1.0]
    assert measurements == ["fp32", "bf16"]
