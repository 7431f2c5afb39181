"""Runs steps on an NVIDIA GPU, finds devices by name, and counts GPUs."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from unittest import mock

import torch

from modescope.bench.devices import nvml
from modescope.bench.devices.allocators import Allocator
from modescope.bench.devices.cuda_allocator import CudaAllocator, drop_workspaces
from modescope.bench.devices.devices import (
    Activities,
    Cpu,
    Evictor,
    Hardware,
    Mark,
    Step,
    pause_gc,
    prepare_call,
    prepare_like,
    sweeper,
)
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError

CudaStream = torch.cuda.Stream


class CudaMark:
    """A timing event on the current stream. Its resolution is about 0.5 µs (CUDA runtime API)."""

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
    """Cycles of a short and a long spin: 0.5 and 2 ms at 2 GHz, so the 0.5 µs of an event are less
    than 0.1 % of the slope."""

    SLOPES = 3  # readings of the clock: their median ignores one that was interrupted

    def __init__(self, index: int) -> None:
        self.torch_device = torch.device("cuda", index)
        self.allocator: Allocator = CudaAllocator(index)
        torch.cuda.set_device(index)
        self.nvidia_id = nvml.id_of(str(torch.cuda.get_device_properties(self.torch_device).uuid))
        self.synchronize: Callable[[], None] = torch.cuda.synchronize
        self._last_clock_hz: float | None = None
        self._slowdowns: Counter[str] = Counter()

    def facts(self) -> DeviceFacts:
        """Returns the name, compute capability and memory that the driver reports."""
        properties = torch.cuda.get_device_properties(self.torch_device)
        capability = (properties.major, properties.minor)
        return DeviceFacts("cuda", properties.name, capability, properties.total_memory)

    def generator_states(self) -> list[torch.Tensor]:
        """Returns the states of the host's and the GPU's random generators."""
        return [torch.get_rng_state(), torch.cuda.get_rng_state(self.torch_device)]

    def hold(self, seconds: float) -> None:
        """Queues a kernel that spins for about `seconds`."""
        clock_hz = self._last_clock_hz or self.clock_hz()
        torch.cuda._sleep(max(1, int(seconds * clock_hz)))

    def mark(self) -> Mark:
        """See `Device`."""
        return CudaMark()

    def clock_hz(self) -> float:
        """Measures the clock frequency of its multiprocessors in Hz with spinning kernels."""
        self._last_clock_hz = statistics.median(self._slope_hz() for _ in range(self.SLOPES))
        return self._last_clock_hz

    def _slope_hz(self) -> float:
        """Returns the clock in Hz from the difference of two spins, so that launch costs cancel."""
        short, long = self.SPINS
        self.synchronize()
        torch.cuda._sleep(short)  # meanwhile the rest is queued, so that no gaps arise
        begin = self.mark()
        torch.cuda._sleep(short)
        middle = self.mark()
        torch.cuda._sleep(long)
        end = self.mark()
        self.synchronize()
        return (long - short) / (end.seconds_since(middle) - middle.seconds_since(begin))

    def cache_bytes(self) -> tuple[int | None, int | None]:
        """The L2 cache, which is its last level."""
        return self._l2_bytes, self._l2_bytes

    def evictor(self, data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]) -> Evictor:
        """Returns a write of twice the L2 cache on the current stream."""
        return sweeper(data, kept, 2 * self._l2_bytes)

    @property
    def _l2_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(self.torch_device).L2_cache_size)

    def slowdowns(self) -> Mapping[str, int] | None:
        """See `Hardware`. A count is the number of calls of this method that saw the reason."""
        reasons = nvml.clock_reasons(self.nvidia_id)
        if reasons is None:
            return None
        self._slowdowns.update(reasons)
        return dict(self._slowdowns)

    def other_processes(self) -> int | None:
        """See `nvml.other_processes`."""
        return nvml.other_processes(self.nvidia_id)

    def capture(self, step: Step) -> Step:
        """Returns a step that replays `step` as a CUDA graph and returns its output.

        It is captured on a side stream after warm-up there, which PyTorch's notes on CUDA graphs
        demand. Each graph has a stream of its own, because destroying a graph frees cuBLAS's
        workspaces of its stream, which other graphs of that stream still use (pytorch#193402).
        Garbage collection is paused, because a graph that it destroys during a capture makes the
        capture fail (pytorch#161037).
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self.CAPTURE_WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(side)
        # The graph's workspace has to lie in its pool: the compiler's graphs free all others.
        drop_workspaces()
        graph = torch.cuda.CUDAGraph()
        call = prepare_call(step)
        with pause_gc(), torch.cuda.graph(graph, stream=side):
            output = call()

        def replay() -> object:
            graph.replay()
            return output

        return prepare_like(replay, step)

    def make_graph(
        self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
    ) -> torch.nn.Module:
        """See `torch.cuda.make_graphed_callables`, which warms up by itself."""
        with pause_gc():  # see `capture`
            made = torch.cuda.make_graphed_callables(module, inputs, allow_unused_input=True)
        assert isinstance(made, torch.nn.Module)
        return made

    def stream(self) -> CudaStream:
        """Returns a new queue of work, for `on`."""
        return torch.cuda.Stream(self.torch_device)

    def on(self, stream: CudaStream) -> AbstractContextManager[None]:
        """Queues work of the block on `stream`, and allocates its memory for that stream."""
        return torch.cuda.stream(stream)


def gpu_in_use() -> torch.device | None:
    """Returns the current GPU if this process has used one, else None."""
    if not torch.cuda.is_initialized():
        return None
    return torch.device("cuda", torch.cuda.current_device())


def find(name: str) -> Hardware:
    """Returns the device called `name`: auto, cpu, cuda or cuda:<index>.

    `auto` is the first GPU, or the CPU without one. Raises UsageError if there is no such device.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return Cpu()
    known = re.fullmatch("auto|cuda(?::([0-9]+))?", name)
    if not known:
        meant = f"; did you mean {name.replace('gpu', 'cuda')}?" if name.startswith("gpu") else ""
        raise UsageError(f"device={name}: allowed are auto, cpu, cuda and cuda:<index>{meant}")
    if torch.version.hip:
        raise UsageError(
            f"device={name}: torch {torch.__version__} is built for AMD GPUs (ROCm), on which "
            "modescope cannot see whether a mode launches graphs; use device=cpu, or an NVIDIA GPU"
        )
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


@contextmanager
def use_device(name: str) -> Iterator[Hardware]:
    """Yields the device called `name`, and restores the current GPU after the block.

    If this process has used a GPU, `auto` and `cuda` are its current GPU. Otherwise `auto` is the
    CPU. Raises UsageError if there is no such device.
    """
    used = gpu_in_use()
    if used is not None and name in ("auto", "cuda"):
        name = str(used)
    elif name == "auto":
        name = "cpu"
    try:
        yield find(name)
    finally:
        if torch.cuda.is_initialized():
            torch.cuda.set_device(used or 0)


COUNT_GPUS = "_cuda_getDeviceCount"
"""The function of `torch._C` that counts GPUs; only builds for CUDA have it. It is replaced here,
not `torch.cuda.is_available`, which calls it: Dynamo knows that function by identity."""

MOST_GPUS = 255  # that an exit status can tell


def count_gpus_in_fork() -> AbstractContextManager[object]:
    """Lets torch count GPUs in a forked child process while the block runs.

    Counting them starts CUDA, and a process that is forked after that cannot use CUDA ("Cannot
    re-initialize CUDA in forked subprocess").
    """
    count = getattr(torch._C, COUNT_GPUS, None)
    if count is None:
        return nullcontext()
    return mock.patch.object(torch._C, COUNT_GPUS, cache(partial(_call_in_fork, count)))


def _call_in_fork(count: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(min(count(), MOST_GPUS))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return max(0, os.waitstatus_to_exitcode(status))  # negative: ended by a signal
