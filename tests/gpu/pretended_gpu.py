"""A GPU for rehearsals: the CPU with emulated CUDA graphs and a queue that can be held.

Operators run on the CPU when they are called. What the device would do takes as long as its host
time, and waits for what is held. So gate, marks and clocks work as on a GPU, and no figure means
anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from modescope.bench.devices.devices import Cpu, Hardware
from modescope.bench.records.environment import DeviceFacts
from tests.helpers.emulated_graphs import Emulated, Graph, emulated

NAME = "a pretended GPU"
CLOCK_HZ = 2e9


class QueueMark:
    """The moment at which the pretended device reaches the end of its queue."""

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    def reached(self) -> bool:
        """See `bench.devices.devices.Mark`."""
        return time.perf_counter() >= self.at_s

    def seconds_since(self, earlier: QueueMark) -> float:
        """See `bench.devices.devices.Mark`."""
        return self.at_s - earlier.at_s


class PretendedGpu(Emulated):
    """`free_s` is when the device has done all that was queued, on the host's clock."""

    type = "cuda"

    def __init__(self) -> None:
        self.seen_s = self.free_s = time.perf_counter()
        self.synchronize = self._wait

    def _queue(self, seconds: float = 0.0) -> float:
        """Queues what the host has done since the last call, and then `seconds`."""
        now_s = time.perf_counter()
        self.free_s = max(self.free_s + (now_s - self.seen_s), now_s) + seconds
        self.seen_s = now_s
        return self.free_s

    def facts(self) -> DeviceFacts:
        """See `Hardware`."""
        return DeviceFacts("cuda", NAME, (9, 0), Cpu().facts().memory_bytes)

    def hold(self, seconds: float) -> None:
        """See `bench.devices.devices.Device`."""
        self._queue(seconds)

    def mark(self) -> Any:
        """See `bench.devices.devices.Device`."""
        return QueueMark(self._queue())

    def _wait(self) -> None:
        """Waits until all is done, busily: a sleep would end some 50 µs late."""
        end_s = self._queue()
        while time.perf_counter() < end_s:
            pass
        self.seen_s = time.perf_counter()

    def clock_hz(self) -> float:
        """See `Hardware`."""
        return CLOCK_HZ


def pretend(module: ModuleType) -> None:
    """Makes the module's `find` return one pretended GPU for names that begin with cuda."""
    find = module.find
    gpu: list[Hardware] = []

    def find_or_pretend(name: str) -> object:
        if not name.startswith("cuda"):
            return find(name)
        if not gpu:
            emulated(pytest.MonkeyPatch())
            _count_replays_in_profiles()
            _autocast_on_the_cpu()
            gpu.append(PretendedGpu())
        return gpu[0]

    module.find = find_or_pretend  # type: ignore[attr-defined]


def _count_replays_in_profiles() -> None:
    replay = Graph.replay

    def seen_by_the_profiler(self: Graph) -> None:
        with torch.profiler.record_function("cudaGraphLaunch"):
            replay(self)

    Graph.replay = seen_by_the_profiler  # type: ignore[method-assign]


def _autocast_on_the_cpu() -> None:
    """Autocast for "cuda" becomes that of the CPU, where the tensors are."""
    autocast, enabled, dtype = (
        torch.autocast, torch.is_autocast_enabled, torch.get_autocast_dtype,
    )  # fmt: skip

    def here(device_type: str | None) -> str:
        return "cpu" if device_type in (None, "cuda") else device_type

    def replace(name: str, function: Callable[..., Any]) -> None:
        setattr(torch, name, function)

    replace("autocast", lambda kind, *rest, **named: autocast(here(kind), *rest, **named))
    replace("is_autocast_enabled", lambda kind=None: enabled(here(kind)))
    replace("get_autocast_dtype", lambda kind: dtype(here(kind)))
