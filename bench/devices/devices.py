"""Devices (their clock, queue and conditions), the steps they run, and the CPU as a device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch

from modescope.bench.devices import cache_lines, processor
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
    prepared calls may be timed as they follow each other. `evicts_s`: how long the preparation
    takes to evict from caches what the call reads, in seconds, which ends it; None: it does not.
    """

    prepare: Step
    call: Step  # alone
    in_a_row: bool = False
    evicts_s: float | None = None

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


@dataclass(frozen=True)
class Evictor:
    """Takes certain data out of a device's caches. Work that it gives to a queue is not awaited.

    `locate` has to be called after the data have moved. Finding them before each call would itself
    slow down what follows: by 1.3 µs a call of 24.
    """

    means: str  # the processor's instruction, or how other data take their place
    evict: Step
    read: Step  # reads the same data once, to show that they were evicted
    seconds: float = 0.0  # that `evict` takes
    locate: Step = lambda: None


def evict_first(step: Step, evictor: Evictor) -> Prepared:
    """Returns `step` with an eviction before each call, untimed, after any other preparation."""
    prepared = prepare_first(step, evictor.evict)
    return replace(prepared, in_a_row=False, evicts_s=evictor.seconds)


def untimed_s(step: Step) -> float:
    """Returns how long the preparation of a call of `step` takes, if that matters; in seconds."""
    return (step.evicts_s or 0.0) if isinstance(step, Prepared) else 0.0


def sweeper(
    data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor], sweep_bytes: int
) -> Evictor:
    """Returns an evictor that writes `sweep_bytes` of other memory, which takes the data's place.

    `kept` are read after that. Both are on one device.
    """
    other = torch.empty(sweep_bytes, dtype=torch.uint8, device=[*data, *kept][0].device)

    def evict() -> None:
        other.zero_()
        _read(kept)

    return Evictor(f"a write of {sweep_bytes} bytes", evict, lambda: _read(data))


@torch.no_grad()
def _read(tensors: Sequence[torch.Tensor]) -> None:
    by_norm = list[torch.Tensor]()
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.itemsize > 1:  # float8 has no norm
            by_norm.append(tensor)
        else:
            tensor.clone()
    if by_norm:
        torch.nn.utils.get_total_norm(by_norm)


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

    def cache_bytes(self) -> tuple[int | None, int | None]:
        """Returns the sizes of its second-level and of its last-level cache; None: unknown."""
        return None, None

    def evictor(self, data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]) -> Evictor:
        """Returns what evicts `data`, at least one tensor on it, but does not evict `kept`."""
        raise AssertionError("this device evicts nothing")

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

    def cache_bytes(self) -> tuple[int | None, int | None]:
        """The second-level cache of a core, and the last level, which cores may share."""
        return cache_lines.sizes_bytes()

    def evictor(self, data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]) -> Evictor:
        """Returns what evicts the lines of `data`; without such an instruction, a sweep."""
        functions = cache_lines.functions()
        if functions is None:
            last_bytes = self.cache_bytes()[1] or cache_lines.LARGE_BYTES
            return sweeper(data, kept, 2 * last_bytes)
        lines = cache_lines.Lines(functions, data)
        return Evictor(functions.instruction, lines.evict, lines.read, locate=lines.locate)

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
