"""Ceilings on a device of simulated time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.case.roofline import ceilings
from modescope.bench.devices.allocators import CpuAllocator
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records.columns import Contention
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import contention
from modescope.bench.timing.timers import Timing

OLD_ENTRY = '{"flops_per_s": 1, "copies": [[1048576, 2.0]]}'


class Scripted(Cpu):
    """A CPU whose calls take `call_s` of the number of calls so far."""

    def __init__(self, call_s: Callable[[], float]) -> None:
        self.now_s = 0.0
        self.call_s = call_s
        self.clock = lambda: self.now_s

    def step(self) -> None:
        self.spend(self.call_s())

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


def rates(call_s_per_work: float, sizes: tuple[int, ...]) -> list[tuple[int, float]]:
    built: list[int] = []
    device = Scripted(lambda: call_s_per_work * built[-1])

    def building(size: int) -> Callable[[], Step]:
        def build() -> Step:
            built.append(size)
            return device.step

        return build

    found = list(ceilings._rates(device, [(size, building(size)) for size in sizes]))
    assert built == [size for size, _ in found], "a size was set up only to be left out"
    return found


def test_the_rate_is_work_per_time() -> None:
    assert [rate for _, rate in rates(0.25e-3, (8, 16))] == pytest.approx([4000.0, 4000.0])


def test_sizes_that_would_take_too_long_are_left_out() -> None:
    assert [size for size, _ in rates(1e-3, (8, 16, 50, 51, 64))] == [8, 16, 50]
    assert [size for size, _ in rates(1.0, (8, 16))] == [8], "the first is tried whatever it takes"


def test_measured_ceilings_of_this_cpu_are_plausible() -> None:
    found = ceilings.measure(Cpu(), "fp32", sides=(64, 128), transfer_bytes=(2**16, 2**20))
    assert 1e6 < found.flops_per_s < 1e14
    assert [size for size, _ in found.transfers] == [2**16, 2**20]
    assert all(1e6 < rate < 1e13 for _, rate in found.transfers)


def test_precision_is_set_for_tf32_and_restored() -> None:
    before = torch.get_float32_matmul_precision()
    with ceilings._precision("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("slow", ["_copy", "_read"])
def test_the_faster_of_copy_and_read_counts_at_each_size(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One moves 1 MB/s, the other 2 MB/s up to 4 kB and takes a second for more."""
    device = Scripted(lambda: 0.0)

    def moving(bytes_per_s: float, up_to: int) -> Callable[[Cpu, int], Step]:
        def build(on: Cpu, moved_bytes: int) -> Step:
            seconds = moved_bytes / bytes_per_s if moved_bytes <= up_to else 1.0
            return lambda: device.spend(seconds)

        return build

    (fast,) = {"_copy", "_read"} - {slow}
    monkeypatch.setattr(ceilings, slow, moving(1e6, up_to=8_000))
    monkeypatch.setattr(ceilings, fast, moving(2e6, up_to=4_000))
    found = ceilings.measure(device, "fp32", sides=(), transfer_bytes=(1_000, 4_000, 8_000))
    assert found.flops_per_s is None
    assert dict(found.transfers) == pytest.approx({1_000: 2e6, 4_000: 2e6, 8_000: 1e6})


def test_a_read_gives_the_sum_of_all_it_reads() -> None:
    total: Any = ceilings._read(Cpu(), 4_000)()
    assert float(total) == 1_000


class Queued(Scripted):
    """A device that queues work; its blocks take `blocks_s`, in order."""

    queues = True


@pytest.mark.parametrize("blocks_s", [(5.0, 4.0, 3.0, 2.0, 1.0), (1.0, 9.0, 9.0, 9.0, 9.0)])
def test_the_best_of_five_blocks_counts(
    blocks_s: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single block on a queue is a mean: an interrupted one would set a low ceiling."""
    waiting = iter(blocks_s)

    def device_time(step: Step, device: Cpu, calls: int) -> Timing:
        return Timing((next(waiting),))

    monkeypatch.setattr(ceilings, "device_time", device_time)
    device = Queued(lambda: 1e-3)
    assert ceilings._shortest_s(device, device.step) == 1.0
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
    monkeypatch.setattr(contention, "between", lambda before, after: seen)


def flops_per_s(file: Path, dtype: str = "fp32") -> float | None:
    return ceilings.ceilings(Cpu(), dtype, file).ceilings.flops_per_s


def test_ceilings_are_measured_once_per_dtype_and_threads(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "ceilings.json"
    first = ceilings.ceilings(Cpu(), "fp32", file)
    assert ceilings.ceilings(Cpu(), "fp32", file) == first
    assert flops_per_s(file, "bf16") == 2.0
    assert ceilings.ceilings(Cpu(), "fp32", file) == first
    assert measurements == ["fp32", "bf16"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 61)
    assert flops_per_s(file) == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["ceilings.json"]


def test_cached_ceilings_have_their_time_torch_and_contention(
    measurements: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "ceilings.json"
    found = ceilings.ceilings(Cpu(), "fp32", file)
    (entry,) = json.loads(file.read_text()).values()
    assert entry == json.loads(json.dumps(asdict(found.ceilings))) | {
        "measured_at": found.measured_at,
        "torch_version": torch.__version__,
        "contended": False,
        "seen": {**asdict(Contention(10.0, 0.0, 0.0, 2, 0.0)), "gpu_processes": None},
    }
    age = datetime.now(UTC) - datetime.fromisoformat(found.measured_at)
    assert 0 <= age.total_seconds() < 600
    assert found.note is None


def test_contended_ceilings_are_used_once_and_not_cached(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ceilings.json"
    share_the_machine(True, monkeypatch)
    found = ceilings.ceilings(Cpu(), "fp32", file)
    assert (found.ceilings.flops_per_s, found.note) == (1.0, ceilings.CONTENDED)
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
    assert ceilings.ceilings(Cpu(), "fp32", tmp_path / "ceilings.json").contended


def test_the_allocators_cache_is_released_around_the_measurement(
    measurements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is released before large buffers are allocated, and after."""
    released: list[int] = []
    monkeypatch.setattr(
        CpuAllocator, "release_unused", lambda self: released.append(len(measurements))
    )
    for _ in range(2):  # the second time the cache is used
        ceilings.ceilings(Cpu(), "fp32", tmp_path / "ceilings.json")
    assert released == [0, 1]


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
