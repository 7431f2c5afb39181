"""The device: its clock, its queue and its limits. Only it and `memory.cuda` know `torch.cuda`."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import torch

from bench import nvml, processor
from bench.memory.allocators import Allocator, CpuAllocator
from bench.memory.cuda import CudaAllocator
from bench.pace import Observable
from bench.records import DeviceFacts, UsageError

Step = Callable[[], object]
Activities = tuple[torch.profiler.ProfilerActivity, ...]
CudaStream = torch.cuda.Stream


class Mark(Protocol):
    """A point in the device's queue of work."""

    def reached(self) -> bool:
        """Whether the device has come to this point."""
        ...

    def seconds_since(self, earlier: Mark) -> float:
        """Device time between two marks; both must have been reached."""
        ...


class Device(Protocol):
    """What timers may ask of a device. A test's simulated device is one too."""

    type: str  # cpu | cuda
    queues: bool  # whether calls return before their work is done
    clock: Callable[[], float]  # host seconds, monotonic
    synchronize: Callable[[], None]  # waits until all issued work is done

    def hold(self, seconds: float) -> None:
        """Keeps the device's queue busy for about `seconds`; only where `queues`."""
        ...

    def mark(self) -> Mark:
        """Puts a mark at the end of the device's queue; only where `queues`."""
        ...


class Hardware(Device, Observable, Protocol):
    """A device that can also run torch."""

    torch_device: torch.device
    activities: Activities
    allocator: Allocator

    @property
    def nvidia_id(self) -> str | None:
        """What nvidia-smi calls it, whatever CUDA_VISIBLE_DEVICES hides; None where it does not."""
        ...

    def facts(self) -> DeviceFacts:
        """What it is and can do."""
        ...

    def capture(self, step: Step) -> Step:
        """`step` captured in a CUDA graph; the result replays it and returns its output."""
        ...

    def graphed(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.nn.Module:
        """`module` whose forward replays a CUDA graph, and whose backward another one."""
        ...


def _nothing() -> None:
    """A CPU has done its work by the time a call returns."""


class Cpu:
    """The host itself."""

    type = "cpu"
    queues = False
    clock = staticmethod(time.perf_counter)
    synchronize = staticmethod(_nothing)
    torch_device = torch.device("cpu")
    activities: Activities = (torch.profiler.ProfilerActivity.CPU,)
    nvidia_id: str | None = None
    allocator: Allocator = CpuAllocator()

    def facts(self) -> DeviceFacts:
        """Its name, as far as the system says one."""
        return DeviceFacts(
            "cpu", processor.name() or "unknown CPU", memory_bytes=host_memory_bytes()
        )

    def hold(self, seconds: float) -> None:
        """Never asked: nothing is queued on a CPU."""
        raise AssertionError("a CPU has no queue to hold")

    def mark(self) -> Mark:
        """Never asked: nothing is queued on a CPU."""
        raise AssertionError("a CPU has no queue to mark")

    def capture(self, step: Step) -> Step:
        """Never asked: `objection` refuses it first."""
        raise AssertionError("a CPU captures no graphs")

    def graphed(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.nn.Module:
        """Never asked: `objection` refuses it first."""
        raise AssertionError("a CPU captures no graphs")

    def clock_hz(self) -> float | None:
        """Unknown: every core has its own, and what the kernel tells may be the nominal one."""
        return None

    def slowdowns(self) -> Mapping[str, int] | None:
        """How often cores or packages got too hot, where the kernel counts it."""
        count = cpu_throttle_count()
        return None if count is None else {"cpu_thermal": count}

    def other_processes(self) -> int | None:
        """Unknown: who shares the cores is asked in `bench.contention`."""
        return None


class CudaMark:
    """A timing event on the current stream. Resolution is about 0.5 µs (CUDA runtime API)."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)
        self._event.record()

    def reached(self) -> bool:
        """See `Mark`."""
        return bool(self._event.query())

    def seconds_since(self, earlier: Mark) -> float:
        """See `Mark`."""
        assert isinstance(earlier, CudaMark)
        return float(earlier._event.elapsed_time(self._event)) * 1e-3


class Cuda:
    """One NVIDIA GPU, its current stream and the caching allocator."""

    type = "cuda"
    queues = True
    clock = staticmethod(time.perf_counter)
    activities: Activities = (
        torch.profiler.ProfilerActivity.CPU,
        torch.profiler.ProfilerActivity.CUDA,
    )

    CAPTURE_WARM_UPS = 3
    """Calls on a side stream before a capture (PyTorch notes on CUDA graphs)."""

    SPINS = 2**20, 2**22
    """Cycles: 0.5 and 2 ms at 2 GHz, so the 0.5 µs of an event are less than 0.1 % of the slope."""

    SLOPES = 3  # of the clock: a median shrugs off one that was interrupted

    def __init__(self, index: int) -> None:
        self.torch_device = torch.device("cuda", index)
        self.allocator: Allocator = CudaAllocator(index)
        torch.cuda.set_device(index)
        uuid = torch.cuda.get_device_properties(self.torch_device).uuid
        self.nvidia_id = f"GPU-{uuid}"
        self.synchronize: Callable[[], None] = torch.cuda.synchronize
        self._last_clock_hz: float | None = None
        self._slowdowns: Counter[str] = Counter()

    def facts(self) -> DeviceFacts:
        """Name, compute capability and memory as the driver reports them."""
        properties = torch.cuda.get_device_properties(self.torch_device)
        capability = (properties.major, properties.minor)
        return DeviceFacts("cuda", properties.name, capability, properties.total_memory)

    def hold(self, seconds: float) -> None:
        """Queues a kernel that spins for about `seconds`."""
        clock_hz = self._last_clock_hz or self.clock_hz()
        torch.cuda._sleep(max(1, int(seconds * clock_hz)))

    def mark(self) -> Mark:
        """See `Device`."""
        return CudaMark()

    def clock_hz(self) -> float:
        """The clock of its multiprocessors, which is what a spin of so many cycles counts."""
        self._last_clock_hz = statistics.median(self._slope_hz() for _ in range(self.SLOPES))
        return self._last_clock_hz

    def _slope_hz(self) -> float:
        """Slope between two spins, so that the cost of a launch cancels."""
        short, long = self.SPINS
        self.synchronize()
        torch.cuda._sleep(short)  # while it spins, all that follows is queued without a gap
        begin = self.mark()
        torch.cuda._sleep(short)
        middle = self.mark()
        torch.cuda._sleep(long)
        end = self.mark()
        self.synchronize()
        return (long - short) / (end.seconds_since(middle) - middle.seconds_since(begin))

    def slowdowns(self) -> Mapping[str, int] | None:
        """NVML says what is so at this moment: how many times it said so when asked here."""
        reasons = nvml.clock_reasons(self.nvidia_id)
        if reasons is None:
            return None
        self._slowdowns.update(reasons)
        return dict(self._slowdowns)

    def other_processes(self) -> int | None:
        """See `nvml.other_processes`."""
        return nvml.other_processes(self.nvidia_id)

    def capture(self, step: Step) -> Step:
        """Warm-up on a side stream, then capture (PyTorch notes on CUDA graphs)."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self.CAPTURE_WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = step()

        def replay() -> object:
            graph.replay()
            return output

        return replay

    def graphed(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.nn.Module:
        """See `torch.cuda.make_graphed_callables`, which warms up by itself."""
        made = torch.cuda.make_graphed_callables(module, inputs, allow_unused_input=True)
        assert isinstance(made, torch.nn.Module)
        return made

    def stream(self) -> CudaStream:
        """Another queue of work beside the current one, for `on`."""
        return torch.cuda.Stream(self.torch_device)

    def on(self, stream: CudaStream) -> AbstractContextManager[None]:
        """Within it, work is queued on `stream`, and the allocator takes memory for it."""
        return torch.cuda.stream(stream)


def find(name: str) -> Hardware:
    """The device called `name`: auto, cpu, cuda or cuda:<index>.

    Raises UsageError for another name, and where there is no such GPU.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return Cpu()
    known = re.fullmatch("auto|cuda(?::([0-9]+))?", name)
    if not known:
        raise UsageError(f"device={name}: allowed are auto, cpu, cuda and cuda:<index>")
    index = int(known[1] or 0)
    if not torch.cuda.is_available():
        raise UsageError(
            f"device={name}: torch {torch.__version__} finds no CUDA GPU here; use device=cpu, or "
            "install a CUDA build of torch and check nvidia-smi"
        )
    if index >= torch.cuda.device_count():
        raise UsageError(
            f"device={name}: this machine has {torch.cuda.device_count()} GPU(s), counted from 0"
        )
    return Cuda(index)


def host_memory_bytes() -> int | None:
    """Physical memory of the host; None where /proc/meminfo does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    return sizes[0] if sizes else None


def cpu_throttle_count(cores: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """How often the CPU slowed itself down since boot because a core or package was too hot.

    The sum over all cores, so a package counts once for each of its own. None where the kernel does
    not count; it does on Intel's processors (kernel document intel_thermal_throttle).
    """
    files = list(cores.glob("cpu[0-9]*/thermal_throttle/*_throttle_count"))
    try:
        return sum(int(file.read_text()) for file in files) if files else None
    except (OSError, ValueError):  # a core that is switched off takes its files along
        return None
