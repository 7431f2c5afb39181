"""A made-up GPU on which cases run from first call to last pass, in simulated seconds.

Everything above torch's drivers is the real thing: model, steps, checks, rounds, clocks and passes.
Made up are what a call costs, what the allocator and the system's counters say, the recording of
the profiler, and the rates at which the device multiplies and copies.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.bench.devices.allocators import Allocations, Watched
from modescope.bench.devices.devices import Step
from modescope.bench.passes.profiler.traces import STEP
from modescope.bench.records.columns.passes import Setup
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.timing.contention import Counters
from tests.helpers.simulated import SimulatedDevice

US = 2.0**-20
"""About a microsecond. All times are multiples of a part of it that is a power of two, so that sums
are exact, and equal times equal."""

READ_S, MARK_S, PACE_S, CAPTURE_S, PROFILED_S = US / 8, US / 2, 50 * US, 0.25, 12 * US
WIDTH = 4
CACHES_BYTES = 3_000, 70_000
FLOPS_PER_S = {"fp32": 1e9, "bf16": 2e9}
DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
COPIED_BYTES_PER_S, READ_BYTES_PER_S = 20e6, 16e6

Launches = tuple[tuple[float, float], ...]  # host and device time of each, in US
Kind = tuple[str, str]  # grad state, or `replay` or `empty`; and the dtype of the weights


@dataclass(frozen=True)
class Process:
    """What differs between the processes of the world."""

    launches: dict[Kind, Launches]
    errors: dict[str, float]  # relative error of the result, by the phase of the run
    slowdown: float = 1.0  # of host and device alike
    depth: int = 10**9  # launches, holds and marks that the queue takes
    power_capped: bool = False


class FixedAllocator:
    """An allocator that always says the same, each number another one."""

    unreadable: str | None = None
    snapshots = True

    @contextmanager
    def watch(self) -> Iterator[Watched[Allocations]]:
        watched = Watched[Allocations]()
        yield watched
        watched.result = Allocations(7, 5, 7000, 6400, peak_bytes=4096)

    @contextmanager
    def watch_setup(self) -> Iterator[Watched[Setup]]:
        watched = Watched[Setup]()
        yield watched
        watched.result = Setup(99_000)

    def resident_bytes(self) -> int:
        return 3000

    def workspace_bytes(self) -> int:
        return 333

    def pools(self) -> dict[str, int]:
        return {
            "reserved_bytes": 90_000, "graph_pool_bytes": 20_000, "graph_pool_live_bytes": 1_500
        }  # fmt: skip

    def release_unused(self) -> None:
        """Nothing is unused."""

    @contextmanager
    def record(self, path: Path, entries: int) -> Iterator[None]:
        yield
        path.write_bytes(b"snapshot")


@dataclass
class _Here:
    """The machine of the process that runs now: models are copied, so they look it up."""

    machine: Machine | None = None


HERE = _Here()


class Machine(SimulatedDevice):
    """The device, and the process on it."""

    torch_device = torch.device("cpu")
    activities = (torch.profiler.ProfilerActivity.CPU,)
    nvidia_id = "GPU-made-up"

    def __init__(self, process: Process) -> None:
        super().__init__(
            depth=process.depth,
            read_cost_s=READ_S,
            mark_s=MARK_S,
            slowdown=lambda now_s: process.slowdown,
        )
        self.process = process
        self.allocator = FixedAllocator()
        self.phases: list[tuple[str, float]] = [("", 0.0)]
        self.replaying = False
        self._looks = self._readings = 0
        HERE.machine = self

    def cache_bytes(self) -> tuple[int, int]:
        return CACHES_BYTES

    def report(self, phase: str, keep: object = None) -> None:
        """Notes when each phase of the run begins."""
        self.phases.append((phase, self.now_s))

    def lasted_s(self, phase: str) -> float:
        """How long this phase of the run took."""
        if phase == "whole run":
            return self.now_s
        begins = [*self.phases, ("", self.now_s)]
        place = next(at for at, (name, _) in enumerate(begins) if name == phase)
        return begins[place + 1][1] - begins[place][1]

    def forward(self, weight: torch.Tensor, x: torch.Tensor) -> float:
        """Spends the time of a call, and returns the factor of its result."""
        grad = "enabled" if torch.is_grad_enabled() else "no_grad"
        kind = "inference_mode" if torch.is_inference_mode_enabled() else grad
        kind = "replay" if self.replaying else kind
        kind = "empty" if not len(x) else kind
        launches = self.process.launches.get((kind, str(weight.dtype).removeprefix("torch.")), ())
        if self.phases[-1][0] == "profile":
            self.launch(PROFILED_S, 0.0)
        for host, device in launches:
            self.launch(host * US, device * US)
        return 1 + self.process.errors.get(self.phases[-1][0], 0.0)

    def hold(self, seconds: float) -> None:
        """For a whole number of US."""
        super().hold(math.ceil(seconds / US) * US)

    def fixed_work(self) -> None:
        """In place of the fixed piece of Python code that shows the machine's pace."""
        self.launch(PACE_S, 0.0)

    def capture(self, step: Step) -> Step:
        """A replay costs one launch, and computes anew."""
        self.launch(CAPTURE_S, 0.0)

        def replay() -> object:
            self.replaying = True
            try:
                with torch.profiler.record_function("cudaGraphLaunch"):
                    return step()
            finally:
                self.replaying = False

        return replay

    def facts(self) -> DeviceFacts:
        return DeviceFacts("cuda", "Made-up GPU", (9, 0), 8 * 2**30)

    def generator_states(self) -> list[torch.Tensor]:
        return [torch.get_rng_state()]

    def slowdowns(self) -> dict[str, int]:
        """Where power is capped, one reason is given anew at every look; the other one is older."""
        self._looks += self.process.power_capped
        return {"sw_power_cap": self._looks, "hw_thermal": 4}

    def other_processes(self) -> int:
        return 0

    def counters(self) -> Counters:
        """Between two readings: 10 s on four cores, of which others use 0.5 s."""
        self._readings += 1
        at = float(self._readings)
        return Counters(10 * at, 4 * at, 0.05 * at, 35.5 * at, 4, 0.02 * at)

    def recording(self, profiler: object) -> dict[str, Any]:
        """A trace of five calls, in place of the profiler's; spans and first kernels differ."""
        events = [event for number, more_us in enumerate((30, 10, 0, 20, 40))
                  for event in _profiled_call(1000.0 * number, number, 200 + more_us)]  # fmt: skip
        slower = self.process.slowdown
        timed = [{**each, "ts": each["ts"] * slower, "dur": each["dur"] * slower}
                 for each in events]  # fmt: skip
        return {"traceEvents": timed}


def _profiled_call(at_us: float, number: int, span_us: float) -> Iterator[dict[str, Any]]:
    """Two kernels overlap on two streams; a copy, a fill and a third kernel follow."""
    host: list[tuple[str, str, float, float]] = [
        ("user_annotation", STEP, 0, span_us),
        ("cpu_op", "TorchDynamo Cache Lookup", 2, 4),
        ("cpu_op", "Torch-Compiled Region: 0/0", 8, 150),
        ("cpu_op", "aten::linear", 10, 100),
        ("cpu_op", "aten::addmm", 20, 60),
        ("cpu_op", "aten::mul", 120, 30),
    ]
    launched: list[tuple[str, float, str, str, float, float]] = [
        ("cudaLaunchKernel", 30, "kernel", "gemm", 40, 50 + number),
        ("cudaLaunchKernel", 60, "kernel", "add", 70, 40),
        ("cudaMemcpyAsync", 125, "gpu_memcpy", "Memcpy DtoD", 150, 5),
        ("cudaMemsetAsync", 130, "gpu_memset", "Memset", 156, 4),
        ("cudaLaunchKernel", 135, "kernel", "gemm", 165, 20),
    ]
    for category, name, start, length in host:
        yield _event(category, name, at_us + start, length, "host")
    for stream, (call, when, category, name, start, length) in enumerate(launched):
        same = {"correlation": 10 * number + stream + 1}
        yield _event("cuda_runtime", call, at_us + when, 1, "host", same)
        yield _event(category, name, at_us + start, length, f"stream {stream}", same)


def _event(
    category: str, name: str, start: float, length: float, thread: str, args: Any = None
) -> dict[str, Any]:
    """As Kineto writes it, in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread,
            "ts": start, "dur": length, "args": args or {}}  # fmt: skip


@dataclass
class Meter(TorchDispatchMode):
    """Spends what matrix products, copies and sums would take on the device."""

    machine: Machine
    spent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        aten, operator = torch.ops.aten, func.overloadpacket
        if operator is aten.mm:
            (rows, inner), columns = args[0].shape, args[1].shape[1]
            rate = FLOPS_PER_S[DTYPES[args[0].dtype]]
            self.machine.launch(0.0, 2 * rows * inner * columns / rate)
        elif operator is aten.copy_:
            self.machine.launch(0.0, (args[0].nbytes + args[1].nbytes) / COPIED_BYTES_PER_S)
        elif operator is aten.sum:
            self.machine.launch(0.0, args[0].nbytes / READ_BYTES_PER_S)
        return result


def metered(measure: Callable[..., Any]) -> Callable[..., Any]:
    """`bench.passes.ceilings.measure`, whose operators take the meter's time."""

    def measured(device: Any, dtype: str) -> Any:
        with Meter(device):
            return measure(device, dtype)

    return measured


class Net(torch.nn.Module):
    """All numbers are powers of two, so that every precision computes them exactly."""

    shift: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.diag(torch.tensor([1.0, 2.0, 4.0, 8.0])))
        self.register_buffer("shift", torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert HERE.machine is not None
        factor = HERE.machine.forward(self.weight, x)
        y = x.to(self.weight.dtype) @ self.weight + self.shift
        return (y if factor == 1 else y * factor), x


def build(batch: int) -> tuple[Net, tuple[torch.Tensor]]:
    """A case's model: whole numbers go in, and come out beside the result."""
    return Net(), (2 ** (torch.arange(batch * WIDTH) % 5).view(batch, WIDTH),)


def build_killed(died: str) -> NoReturn:
    """A model for which there is not enough memory."""
    Path(died).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("survived")
