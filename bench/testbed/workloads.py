"""Steps whose duration is known, or known to be equal: what the harness is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch

from bench.devices import Device, Hardware, Step
from bench.timers import latency

SPIN_S = 200e-6
"""The least that a step on a device that queues work spins where it may be longer at times."""

WAIT_S = 500e-9
"""The least that one on a CPU waits where it may be longer at times: several looks at a clock."""

CALLS = 200  # that tell how long one takes


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


def call_s(step: Step, device: Device) -> float:
    """About how long a call takes that is waited for."""
    seconds = latency(step, device, CALLS).median_s
    assert seconds is not None
    return seconds


def waiting(work: Workload, share: Callable[[], float], device: Device) -> Workload:
    """`work`, then a busy wait of the host: WAIT_S, and `share()` of the call and WAIT_S together.

    The very call is timed, as the processor may have changed its speed since another. The share is
    asked for before it and no call is without a wait, or a plain call would spend in the place of
    the wait what it takes to find out that there is none.
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


def spinning(work: Workload, share: Callable[[], float], device: Device) -> Workload:
    """`work`, then a spin of the device: SPIN_S, and `share()` of the call and SPIN_S together.

    A wait of the host would be hidden behind the device, and a kernel that comes and goes would
    cost more than 1 % of a short step by itself. The host does not know when the device is done
    with a call, so that calls made while this is built tell how long one takes. Of the device's own
    time, which is shorter by what launching takes, the spin is a little more than that share.
    """

    def spun(extra_s: float, *tensors: torch.Tensor) -> None:
        work.function(*tensors)
        device.hold(SPIN_S + extra_s)

    plain_s = call_s(lambda: spun(0.0, *work.tensors), device)
    return Workload(lambda *tensors: spun(share() * plain_s, *tensors), work.tensors)


def lengthened(work: Workload, share: Callable[[], float], device: Device) -> Workload:
    """`work`, each call longer by what `share` says for it, of the time that its caller waits."""
    longer = spinning if device.queues else waiting
    return longer(work, share, device)


def planted(work: Workload, share: float, device: Device) -> Workload:
    """`work` longer by always the same share; by none, it still carries the same wrapper."""
    return lengthened(work, lambda: share, device)


def delay(seconds: float) -> Step:
    """A step in which the host waits busily and does nothing else, not even to find out how long.

    A call within a call would add a tenth of a microsecond to what is known.
    """
    clock = perf_counter

    def wait() -> None:
        end = clock() + seconds
        while clock() < end:
            pass

    return wait
