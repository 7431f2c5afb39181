"""Steps whose duration is known, or known to be equal: what the harness is tried on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.devices import Device, Hardware, Step

SPIN_S = 200e-6
"""How long a step on a device that queues work spins where it is disturbed at all."""


@dataclass(frozen=True)
class Workload:
    """A step, and the tensors it works on: `bench.placement` may move them."""

    function: Callable[..., object]
    tensors: tuple[torch.Tensor, ...] = ()

    def __call__(self) -> object:
        """The step."""
        return self.function(*self.tensors)


def python_loop() -> Workload:
    """The interpreter alone, no memory to speak of: about 20 µs."""

    def loop() -> None:
        for _ in range(2000):
            pass

    return Workload(loop)


def pointwise() -> Workload:
    """Twenty small operators: the dispatcher and the allocator, about 50 µs."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for _ in range(20):
                x = x * 1.01
            return x

    return Workload(chain, (torch.rand(256),))


def matmul() -> Workload:
    """One matrix product of 128: arithmetic, about 40 µs."""
    return Workload(torch.mm, (torch.rand(128, 128), torch.rand(128, 128)))


def copy() -> Workload:
    """A copy of 1 MiB in place: caches and memory, about 20 µs."""
    return Workload(torch.Tensor.copy_, (torch.empty(2**18), torch.rand(2**18)))


def linear_with_tape() -> Workload:
    """Two small layers that record for backward: autograd's objects come and go, about 30 µs."""
    layers = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)
    )
    x = torch.rand(16, 64)
    return Workload(lambda *_: layers(x), (x, *layers.parameters()))


def attention() -> Workload:
    """Attention of four heads over 32 tokens: one fused kernel, about 15 µs."""
    q, k, v = (torch.rand(1, 4, 32, 32) for _ in range(3))
    return Workload(torch.nn.functional.scaled_dot_product_attention, (q, k, v))


WORKLOADS: dict[str, Callable[[], Workload]] = {
    each.__name__: each
    for each in (python_loop, pointwise, matmul, copy, linear_with_tape, attention)
}
"""By name; each call builds anew, so that two steps of one workload share no memory."""


def built(name: str, device: Hardware) -> Workload:
    """The workload called `name` with its tensors on `device`."""
    with device.torch_device:
        return WORKLOADS[name]()


def waiting(work: Workload, extra_s: Callable[[], float]) -> Workload:
    """`work`, and then as much busy waiting of the host as `extra_s` says for this call."""
    clock = time.perf_counter

    def longer(*tensors: torch.Tensor) -> None:
        work.function(*tensors)
        end = clock() + extra_s()
        while clock() < end:
            pass

    return Workload(longer, work.tensors)


def spinning(work: Workload, extra_s: Callable[[], float], device: Device) -> Workload:
    """`work`, and then a spin of the device of SPIN_S and as much more as `extra_s` says.

    A wait of the host would be hidden behind the device, and a kernel that comes and goes would
    cost more than 1 % of a short step by itself.
    """

    def longer(*tensors: torch.Tensor) -> None:
        work.function(*tensors)
        device.hold(SPIN_S + extra_s())

    return Workload(longer, work.tensors)


def disturbed(work: Workload, extra_s: Callable[[], float], device: Device) -> Workload:
    """`work` made longer by what `extra_s` says for each call, in the time that a caller sees."""
    return spinning(work, extra_s, device) if device.queues else waiting(work, extra_s)


def planted(work: Workload, extra_s: float, device: Device) -> Workload:
    """`work` made longer by always the same; by nothing, it still carries the same wrapper."""
    return disturbed(work, lambda: extra_s, device)


def delay(seconds: float) -> Step:
    """A step in which the host waits busily and does nothing else, not even to find out how long.

    A call within a call would add a tenth of a microsecond to what is known.
    """
    clock = time.perf_counter

    def wait() -> None:
        end = clock() + seconds
        while clock() < end:
            pass

    return wait
