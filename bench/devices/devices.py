"""The interface of a device: its clock, queue and conditions; kinds of steps; and the CPU."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch

from modescope.bench.devices import processor
from modescope.bench.devices.allocators import Allocator, CpuAllocator
from modescope.bench.records.columns import DeviceState
from modescope.bench.records.environment import DeviceFacts

Step = Callable[[], object]
Activities = tuple[torch.profiler.ProfilerActivity, ...]


@dataclass(frozen=True)
class Prepared:
    """A step that needs a preparation before each call, which is no part of any time.

    Calling a `Prepared` does both; code that times or watches calls takes them apart.
    """

    prepare: Step
    call: Step  # alone

    def __call__(self) -> object:
        """Prepares, then calls."""
        self.prepare()
        return self.call()


@dataclass(frozen=True)
class Series:
    """A step that consists of several calls, which a clock may time a few at a time."""

    calls: tuple[Step, ...]

    def __call__(self) -> None:
        """Makes the calls in order."""
        for call in self.calls:
            call()


def bare_call(step: Step) -> Step:
    """The call of `step` without its preparation."""
    return step.call if isinstance(step, Prepared) else step


def prepare_call(step: Step) -> Step:
    """Prepares `step` now, if it needs that; returns its call without preparation, for one use."""
    if isinstance(step, Prepared):
        step.prepare()
    return bare_call(step)


def prepare_like(step: Step, like: Step) -> Step:
    """`step` with the preparation of `like`; `step` itself if `like` has none."""
    return Prepared(like.prepare, step) if isinstance(like, Prepared) else step


class Mark(Protocol):
    """A point in the device's queue of work."""

    def reached(self) -> bool:
        """Whether the device has come to this point."""

    def seconds_since(self, earlier: Mark) -> float:
        """Seconds of device time since the mark `earlier`; both must have been reached."""


class Device(Protocol):
    """What timers need of a device. Simulated devices of tests have it too."""

    type: str  # cpu | cuda
    queues: bool  # whether calls return before their work is done
    clock: Callable[[], float]  # host seconds, monotonic
    synchronize: Callable[[], None]  # waits until all issued work is done

    def hold(self, seconds: float) -> None:
        """Keeps the device's queue busy for about `seconds`; only where `queues`."""
        raise AssertionError("this device has no queue to hold")

    def mark(self) -> Mark:
        """Puts a mark at the end of the device's queue; only where `queues`."""
        raise AssertionError("this device has no queue to mark")


class Hardware(Device, Protocol):
    """A device that can also run torch, and reports its conditions: None for unknown ones."""

    torch_device: torch.device
    activities: Activities
    allocator: Allocator

    @property
    def nvidia_id(self) -> str | None:
        """Its id for nvidia-smi, independent of CUDA_VISIBLE_DEVICES; None where it has none."""

    def facts(self) -> DeviceFacts:
        """Its name, memory and the like."""

    def generator_states(self) -> list[torch.Tensor]:
        """States of torch's default generators that a step on this device may draw from."""

    def capture(self, step: Step) -> Step:
        """A step that replays `step`, captured in a CUDA graph, and returns its output."""
        raise AssertionError("this device captures no graphs")

    def make_graph(
        self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
    ) -> torch.nn.Module:
        """`module` whose forward replays one CUDA graph, and whose backward replays another."""
        raise AssertionError("this device captures no graphs")

    def clock_hz(self) -> float | None:
        """Its present clock in cycles per second."""
        return None

    def slowdowns(self) -> Mapping[str, int] | None:
        """Counts of slowdowns by reason; None if unknown. Only their growth has a meaning."""

    def other_processes(self) -> int | None:
        """The number of other processes that compute on it."""
        return None


class Cpu(Hardware):
    """The host itself.

    Modes that capture are refused before they get here. Its clock is unknown: each core has its
    own, and the kernel may report the nominal one. `bench.timing.contention` measures how much of
    it others use.
    """

    type = "cpu"
    queues = False
    clock = staticmethod(time.perf_counter)
    synchronize = staticmethod(lambda: None)  # its work is done by the time a call returns
    torch_device = torch.device("cpu")
    activities: Activities = (torch.profiler.ProfilerActivity.CPU,)
    nvidia_id: str | None = None
    allocator: Allocator = CpuAllocator()

    def facts(self) -> DeviceFacts:
        """The CPU's name, as far as the system gives one, and the host's memory."""
        name, memory_bytes = processor.name() or "unknown CPU", processor.host_memory_bytes()
        return DeviceFacts("cpu", name, memory_bytes=memory_bytes)

    def generator_states(self) -> list[torch.Tensor]:
        """The state of the host's random generator."""
        return [torch.get_rng_state()]

    def slowdowns(self) -> Mapping[str, int] | None:
        """How often cores or packages were too hot, where the kernel counts it."""
        count = processor.throttle_count()
        return None if count is None else {"cpu_thermal": count}


@dataclass(frozen=True)
class Conditions:
    """Clock, slowdowns and other processes at one moment between timed blocks."""

    clock_hz: float | None
    slowdowns: Mapping[str, int] | None
    other_processes: int | None


def read_conditions(device: Hardware) -> Conditions:
    """The present conditions of `device`, which must have no work queued."""
    slowdowns = device.slowdowns()  # first, because reasons disappear on an idle device
    return Conditions(device.clock_hz(), slowdowns, device.other_processes())


def device_state(before: Conditions, after: Conditions) -> DeviceState:
    """What two readings show: both clocks, slowdown reasons between them, the most other processes.

    Null where one of the readings has none.
    """
    clocks_hz = [each.clock_hz for each in (before, after) if each.clock_hz is not None]
    others = [each.other_processes for each in (before, after) if each.other_processes is not None]
    grown = None
    if (earlier := before.slowdowns) is not None and after.slowdowns is not None:
        grown = tuple(name for name, n in after.slowdowns.items() if n > earlier.get(name, 0))
    return DeviceState(
        device_clock_hz=tuple(clocks_hz) if len(clocks_hz) == 2 else None,
        throttle_reasons=grown,
        gpu_processes=max(others) if len(others) == 2 else None,
    )


@contextmanager
def pause_gc() -> Iterator[None]:
    """Within the block, garbage is collected only if something asks for it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
