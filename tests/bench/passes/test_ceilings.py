"""Ceilings on a device of simulated time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from modescope.bench.devices.allocators import CpuAllocator
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.passes import ceilings
from modescope.bench.records.columns.timing import Contention
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import contention
from modescope.bench.timing.timers import Timing


class Scripted(Cpu):
    """A CPU on which calls take as long as they say."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.clock = lambda: self.now_s

    def taking(self, seconds: float) -> Step:
        def step() -> None:
            self.now_s += seconds

        return step


def test_measured_ceilings_of_this_cpu_are_plausible() -> None:
    found = ceilings.measure(Cpu(), "fp32", sides=(64, 128), transfer_bytes=(2**16, 2**20))
    assert 1e6 < found.flops_per_s < 1e14
    assert [size for size, _ in found.transfers] == [2**16, 2**20]
    assert all(1e6 < rate < 1e13 for _, rate in found.transfers)


@pytest.mark.parametrize("slow", ["_copy", "_read"])
def test_the_fastest_counts_at_each_size_until_a_call_would_take_too_long(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One moves 1 MB/s, the other 2 MB/s up to 4 kB and takes a second for more."""
    device, built = Scripted(), set[int]()

    def moving(bytes_per_s: float, up_to: int) -> Callable[[Cpu, int], Step]:
        def build(on: Cpu, moved_bytes: int) -> Step:
            built.add(moved_bytes)
            return device.taking(moved_bytes / bytes_per_s if moved_bytes <= up_to else 1.0)

        return build

    def gemm(on: Cpu, dtype: str, transposed: bool, side: int) -> Step:
        return device.taking(0.5 if transposed else 1.0)

    (fast,) = {"_copy", "_read"} - {slow}
    monkeypatch.setattr(ceilings, "_gemm", gemm)
    monkeypatch.setattr(ceilings, slow, moving(1e6, up_to=64_000))
    monkeypatch.setattr(ceilings, fast, moving(2e6, up_to=4_000))
    sizes = (1_000, 4_000, 8_000, 50_000, 51_000)
    found = ceilings.measure(device, "fp32", sides=(10, 20), transfer_bytes=sizes)
    assert found.flops_per_s == pytest.approx(2 * 10**3 / 0.5), "the first is tried at any rate"
    rates = {1_000: 2e6, 4_000: 2e6, 8_000: 1e6, 50_000: 1e6}
    assert dict(found.transfers) == pytest.approx(rates)
    assert built == rates.keys(), "a size was set up only to be left out"


def test_the_best_of_five_blocks_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single block on a queue is a mean: an interrupted one would set a low ceiling."""
    waiting = iter([9.0, 9.0, 9.0, 1.0, 9.0])
    monkeypatch.setattr(ceilings, "device_time", lambda *of: Timing((next(waiting),)))
    device = Scripted()
    device.queues = True
    assert ceilings._shortest_s(device, device.taking(1e-3)) == 1.0
    assert list(waiting) == []


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The measured dtypes; the first has a ceiling of 1, the second of 2, ..."""
    made: list[str] = []

    def measure(device: Cpu, dtype: str) -> Ceilings:
        made.append(dtype)
        return Ceilings(float(len(made)), ((2**20, 3.0), (2**22, 1.0)))

    monkeypatch.setattr(ceilings, "measure", measure)
    share_the_machine(False, monkeypatch)
    return made


def share_the_machine(felt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others use half of a core, or nothing, over ten seconds on two cores."""
    seen = Contention(10.0, 0.0, 5.0 if felt else 0.0, 2, 0.0)
    monkeypatch.setattr(contention, "load_between", lambda before, after: seen)


def flops_per_s(file: Path, dtype: str = "fp32") -> float | None:
    return ceilings.ceilings(Cpu(), dtype, file)[0].flops_per_s


def test_ceilings_are_measured_once_per_dtype_and_threads(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is released before large buffers are allocated, and after."""
    released: list[int] = []
    monkeypatch.setattr(
        CpuAllocator, "release_unused", lambda self: released.append(len(measurements))
    )
    file = tmp_path / "new" / "ceilings.json"
    rates, note = ceilings.ceilings(Cpu(), "fp32", file)
    assert (rates.flops_per_s, note, released) == (1.0, None, [0, 1])
    assert flops_per_s(file, "bf16") == 2.0
    assert ceilings.ceilings(Cpu(), "fp32", file) == (rates, None)
    assert measurements == ["fp32", "bf16"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 61)
    assert flops_per_s(file) == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["ceilings.json"]


@pytest.mark.parametrize("by", ["processes", "a process on the GPU"])
def test_contended_ceilings_are_used_once_and_not_cached(
    by: str, measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That process starts during the measurement, and has gone at the next one."""
    file = tmp_path / "ceilings.json"
    share_the_machine(by == "processes", monkeypatch)
    users = iter([0, 0 if by == "processes" else 1, 0, 0])
    monkeypatch.setattr(Cpu, "other_processes", lambda self: next(users))
    found, note = ceilings.ceilings(Cpu(), "fp32", file)
    assert (found.flops_per_s, note) == (1.0, ceilings.CONTENDED)
    assert not file.exists()
    share_the_machine(False, monkeypatch)
    assert flops_per_s(file) == flops_per_s(file) == 2.0
    assert measurements == ["fp32", "fp32"]


def test_a_smoke_budget_uses_ceilings_and_measures_none(
    measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    unknown = (Ceilings(None, ()), ceilings.UNMEASURED)
    assert ceilings.ceilings(Cpu(), "fp32", file, measures=False) == unknown
    assert (measurements, file.exists()) == ([], False)
    known = ceilings.ceilings(Cpu(), "fp32", file)
    assert ceilings.ceilings(Cpu(), "fp32", file, measures=False) == known
    assert measurements == ["fp32"]


@pytest.mark.parametrize("content", ["", '{"a": {}}'])
def test_an_invalid_cache_file_is_measured_again(
    content: str, measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(content)
    assert flops_per_s(file) == flops_per_s(file) == 1.0
    assert measurements == ["fp32"]
