"""Steps whose times, or differences in time, are known, and processes that compete with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter

import torch

from modescope.bench.devices.devices import Device, Hardware, Step
from modescope.bench.records.cpu import usable_cores
from modescope.bench.timing.timers import latency

SPIN_S = 200e-6
"""Shortest spin that lengthens a step on a device that queues work."""

WAIT_S = 500e-9
"""Shortest wait that lengthens a step on a CPU: several readings of the clock."""

CALLS = 200  # for an estimate of the time of one call


@dataclass(frozen=True)
class Workload:
    """A step and its tensors, which `bench.timing.memory_layout` may move."""

    function: Callable[..., object]
    tensors: tuple[torch.Tensor, ...] = ()

    def __call__(self) -> object:
        """Runs the step once."""
        return self.function(*self.tensors)


def python_loop() -> Workload:
    """A loop of the interpreter that uses hardly any memory: about 20 µs."""

    def loop() -> None:
        for _ in range(2000):
            pass

    return Workload(loop)


def pointwise() -> Workload:
    """Twenty small operators, mostly dispatcher and allocator: about 50 µs."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for _ in range(20):
                x = x * 1.01
            return x

    return Workload(chain, (torch.rand(256),))


def matmul() -> Workload:
    """One matrix product of size 128, mostly arithmetic: about 40 µs."""
    return Workload(torch.mm, (torch.rand(128, 128), torch.rand(128, 128)))


def copy() -> Workload:
    """A copy of 1 MiB in place, mostly caches and memory: about 20 µs."""
    return Workload(torch.Tensor.copy_, (torch.empty(2**18), torch.rand(2**18)))


def linear_with_tape() -> Workload:
    """Two small layers with gradients enabled, so that autograd records them: about 30 µs."""
    layers = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)
    )
    x = torch.rand(16, 64)
    return Workload(lambda *_: layers(x), (x, *layers.parameters()))


def attention() -> Workload:
    """Attention of four heads over 32 tokens, one fused kernel: about 15 µs."""
    q, k, v = (torch.rand(1, 4, 32, 32) for _ in range(3))
    return Workload(torch.nn.functional.scaled_dot_product_attention, (q, k, v))


WORKLOADS: dict[str, Callable[[], Workload]] = {
    make.__name__: make
    for make in (python_loop, pointwise, matmul, copy, linear_with_tape, attention)
}
"""Builders by name. Two steps from the same builder share no memory."""


def build(name: str, device: Hardware) -> Workload:
    """Builds the workload called `name` with its tensors on `device`."""
    with device.torch_device:
        return WORKLOADS[name]()


def call_s(step: Step, device: Device) -> float:
    """Estimates the latency of a call of `step` in seconds."""
    seconds = latency(step, device, CALLS).median_s
    assert seconds is not None
    return seconds


def add_wait(work: Workload, share: Callable[[], float], device: Device) -> Workload:
    """Returns `work` followed by a busy wait: WAIT_S + `share()` × (time of this call + WAIT_S).

    `share` is called before each call, and may return another share each time. The time is that of
    the call just made, because the processor's speed changes between calls. A share of 0 still
    waits WAIT_S, so that the overhead of this wrapper is the same with and without a share.
    """
    clock = device.clock

    def longer(*tensors: torch.Tensor) -> None:
        factor = 1 + share()
        start = clock()
        work.function(*tensors)
        end = start + factor * (clock() - start + WAIT_S)
        while clock() < end:
            pass

    return Workload(longer, work.tensors)


def add_spin(work: Workload, share: Callable[[], float], device: Device) -> Workload:
    """Returns `work` followed by a device spin: SPIN_S + `share()` × (time of a call + SPIN_S).

    `share` is called for each call, and may return another share each time. A wait of the host
    would be hidden behind the device, and a kernel that is only sometimes launched would itself
    cost more than 1 % of a short step. The time of a call is estimated here, once, because the host
    does not know when the device finishes a call. The estimate includes launching, so relative to
    the device time the spin is slightly more than that share.
    """

    def spun(extra_s: float, *tensors: torch.Tensor) -> None:
        work.function(*tensors)
        device.hold(SPIN_S + extra_s)

    plain_s = call_s(lambda: spun(0.0, *work.tensors), device)
    return Workload(lambda *tensors: spun(share() * plain_s, *tensors), work.tensors)


def lengthen(work: Workload, share: Callable[[], float], device: Device) -> Workload:
    """Returns `work` with each call longer by `share()` of its latency, by a spin or a wait."""
    longer = add_spin if device.queues else add_wait
    return longer(work, share, device)


def plant(work: Workload, share: float, device: Device) -> Workload:
    """Returns `work` with each call longer by `share` of its latency.

    A share of 0 adds the same wrapper, so that steps with and without a share can be compared.
    """
    return lengthen(work, lambda: share, device)


def delay(seconds: float) -> Step:
    """Returns a step in which the host waits in a busy loop for `seconds`.

    The loop calls no other Python function, which would add a tenth of a microsecond.
    """
    clock = perf_counter

    def wait() -> None:
        end = clock() + seconds
        while clock() < end:
            pass

    return wait


PERIOD_S = 0.005  # of a load that is busy only part of the time; below a scheduler's time slice

BUSY = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
parent, share, period_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
print(flush=True)
while os.getppid() == parent:
    end = time.perf_counter() + share * period_s
    while time.perf_counter() < end:
        pass
    if share < 1:
        time.sleep((1 - share) * period_s)
"""


@contextmanager
def co_runners(count: int, share: float = 1.0) -> Iterator[None]:
    """Runs `count` other processes in the block, each busy for a `share` of the time.

    They end with the block, and by themselves if this process dies.
    """
    command = [sys.executable, "-c", BUSY, str(os.getpid()), str(share), str(PERIOD_S)]
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout
            process.stdout.readline()  # it is there
            started.append(process)
        yield
        if any(process.poll() is not None for process in started):
            raise RuntimeError("a co-runner did not start, or ended too early")


CORES = usable_cores()

Condition = Callable[[], AbstractContextManager[None]]
"""Makes a context in which a check runs, such as one with other busy processes."""

CONDITIONS: dict[str, Condition] = {
    "quiet": nullcontext,
    "one co-runner": lambda: co_runners(1),
    "a co-runner on each core": lambda: co_runners(CORES),
}
