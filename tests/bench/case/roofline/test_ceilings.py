"""Ceilings on a device of simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from modescope.bench.case.roofline import ceilings
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.timing.timers import Timing


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
