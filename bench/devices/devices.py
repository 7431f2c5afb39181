"""Devices (their clock, queue and conditions), the steps they run, and the CPU as a device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch

from modescope.bench.devices import processor
from modescope.bench.devices.allocators import Allocator, CpuAllocator
from modescope.bench.records.columns.timing import DeviceState
from modescope.bench.records.environment import DeviceFacts

Step = Callable[[], object]
T = TypeVar("T")
Activities = tuple[torch.profiler.ProfilerActivity, ...]


@dataclass(frozen=True)
class Prepared:
    """A step with a preparation before each call, which is not timed: only `call` is.

    Calling a `Prepared` does both. Timers and watches use `prepare` and `call` one by one.
    `in_a_row`: whether the preparation takes next to nothing and gives the device no work, so that
    prepared calls may be timed as they follow each other.
    """

    prepare: Step
    call: Step  # alone
    in_a_row: bool = False

    def __call__(self) -> object:
        """Prepares, then calls."""
        self.prepare()
        return self.call()


@dataclass(frozen=True)
class CallSequence:
    """A step that consists of several calls, which a timer may time a few at a time."""

    calls: tuple[Step, ...]

    def __call__(self) -> None:
        """Makes the calls in order."""
        for call in self.calls:
            call()


def bare_call(step: Step) -> Step:
    """Returns the call of `step` without its preparation."""
    return step.call if isinstance(step, Prepared) else step


def prepare_call(step: Step) -> Step:
    """Prepares `step` if it needs that. Returns its bare call, which may be used once."""
    if isinstance(step, Prepared):
        step.prepare()
    return bare_call(step)


def prepare_like(step: Step, like: Step) -> Step:
    """Returns `step` with the preparation of `like`, or `step` itself if `like` has none."""
    return replace(like, call=step) if isinstance(like, Prepared) else step


def prepare_first(step: Step, prepare: Step) -> Prepared:
    """Returns `step` with one more untimed preparation, after any that it has.

    `prepare` must take next to nothing and give the device no work.
    """
    if not isinstance(step, Prepared):
        return Prepared(prepare, step, in_a_row=True)
    first = step.prepare

    def both() -> None:
        first()
        prepare()

    return replace(step, prepare=both)


class Mark(Protocol):
    """A point in the device's queue of work."""

    def reached(self) -> bool:
        """Returns whether the device has come to this point."""

    def seconds_since(self, earlier: Mark) -> float:
        """Returns the device time since the mark `earlier`; both marks must have been reached."""


class Device(Protocol):
    """What timers need of a device. Tests simulate such devices."""

    type: str  # cpu | cuda
    queues: bool  # whether calls return before their work is done
    clock: Callable[[], float]  # host seconds, monotonic
    synchronize: Callable[[], None]  # waits until all issued work is done

    def hold(self, seconds: float) -> None:
        """Keeps the device's queue busy for about `seconds`. Only for devices with `queues`."""
        raise AssertionError("this device has no queue to hold")

    def mark(self) -> Mark:
        """Puts a mark at the end of the device's queue. Only for devices with `queues`."""
        raise AssertionError("this device has no queue to mark")


class Hardware(Device, Protocol):
    """A device that can also run torch and report its conditions. Unknown conditions are None."""

    torch_device: torch.device
    activities: Activities
    allocator: Allocator

    @property
    def nvidia_id(self) -> str | None:
        """Its id for nvidia-smi, independent of CUDA_VISIBLE_DEVICES. None if it has none."""

    def facts(self) -> DeviceFacts:
        """Returns its name, memory and the like."""

    def generator_states(self) -> list[torch.Tensor]:
        """Returns the states of torch's default generators that a step here may draw from."""

    def capture(self, step: Step) -> Step:
        """Returns a step that replays `step` as a CUDA graph and returns its output."""
        raise AssertionError("this device captures no graphs")

    def make_graph(
        self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
    ) -> torch.nn.Module:
        """Returns `module` with its forward and its backward each replaying a CUDA graph."""
        raise AssertionError("this device captures no graphs")

    def clock_hz(self) -> float | None:
        """Returns its present clock frequency in Hz."""
        return None

    def slowdowns(self) -> Mapping[str, int] | None:
        """Counts slowdowns by reason. Only the growth of a count has a meaning. None if unknown."""

    def other_processes(self) -> int | None:
        """Returns the number of other processes that compute on it."""
        return None


class Cpu(Hardware):
    """The host itself as a device.

    Modes that capture graphs are refused before they get here. The clock frequency is unknown: each
    core has its own, and the kernel may report the nominal one. `bench.timing.contention` measures
    how much of the CPU others use.
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
        """Returns the host's memory, and the CPU's name and instructions, if known."""
        name, memory_bytes = processor.name() or "unknown CPU", processor.host_memory_bytes()
        known = processor.instructions()
        return DeviceFacts("cpu", name, memory_bytes=memory_bytes, instructions=known)

    def generator_states(self) -> list[torch.Tensor]:
        """The state of the host's random generator."""
        return [torch.get_rng_state()]

    def slowdowns(self) -> Mapping[str, int] | None:
        """Counts how often cores or packages were too hot. None if the kernel does not count it."""
        count = processor.throttle_count()
        return None if count is None else {"cpu_thermal": count}


@dataclass(frozen=True)
class Conditions:
    """The state of a device at one moment; None: unknown.

    `slowdowns` counts slowdowns by reason (`Hardware.slowdowns`). `other_processes` is the number
    of other processes that compute on the device.
    """

    clock_hz: float | None
    slowdowns: Mapping[str, int] | None
    other_processes: int | None


def read_conditions(device: Hardware) -> Conditions:
    """Reads the present conditions of `device`, which must have no work queued."""
    slowdowns = device.slowdowns()  # first, because reasons disappear on an idle device
    return Conditions(device.clock_hz(), slowdowns, device.other_processes())


def device_state(before: Conditions, after: Conditions) -> DeviceState:
    """Combines the readings of a device from before and after a measurement.

    The result has both clock frequencies, the reasons for slowdowns that occurred in between, and
    the larger of both numbers of other processes. Each is None unless both readings have it.
    """
    clocks_hz = [seen.clock_hz for seen in (before, after) if seen.clock_hz is not None]
    others = [seen.other_processes for seen in (before, after) if seen.other_processes is not None]
    grown = None
    if (earlier := before.slowdowns) is not None and after.slowdowns is not None:
        grown = tuple(name for name, n in after.slowdowns.items() if n > earlier.get(name, 0))
    return DeviceState(
        device_clock_hz=tuple(clocks_hz) if len(clocks_hz) == 2 else None,
        throttle_reasons=grown,
        gpu_processes=max(others) if len(others) == 2 else None,
    )


def join(first: DeviceState, second: DeviceState) -> DeviceState:
    """Returns the state of a device over two measurements, one after the other."""
    others = [count for count in (first.gpu_processes, second.gpu_processes) if count is not None]
    return DeviceState(
        device_clock_hz=_both(first.device_clock_hz, second.device_clock_hz),
        throttle_reasons=_both(first.throttle_reasons, second.throttle_reasons, dict.fromkeys),
        gpu_processes=max(others) if len(others) == 2 else None,
    )


def _both(
    first: tuple[T, ...] | None,
    second: tuple[T, ...] | None,
    sort: Callable[[tuple[T, ...]], Iterable[T]] = tuple,
) -> tuple[T, ...] | None:
    return None if first is None or second is None else tuple(sort(first + second))


@contextmanager
def pause_gc() -> Iterator[None]:
    """Switches off automatic garbage collection in the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
