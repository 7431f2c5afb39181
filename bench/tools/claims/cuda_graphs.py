"""CUDA graphs: the memory of captured steps, and the work that they speed up."""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.stats.estimates import MARGIN, Estimate
from modescope.bench.tools.claims.claim import Answer, claim, in_range, judged, undecided
from modescope.bench.tools.claims.measuring import speedup

COUNT = 2**20  # elements
SIDES = (64, 256, 1024, 4096)


@claim(
    "tensors created while a CUDA graph is captured stay valid over replays, in a private pool; "
    "static inputs from outside must be kept alive by the user",
    "001",
    needs="cuda",
    snippet="""
        import torch
        from torch import cuda

        x, g = torch.full((2**20,), 3.0, device="cuda"), cuda.CUDAGraph()
        with cuda.graph(g):
            y = x * 2 + torch.ones_like(x)
        del x
        others = [torch.full((2**20,), 7.0, device="cuda") for _ in range(8)]
        g.replay()
        print(y[0].item())
    """,
)
def capture_alloc_safe(device: Hardware) -> Answer:
    """Five replays of a captured step that makes tensors, while others are made and held.

    Refuted unless all are right, change no other tensor, and have memory of their own. Then one
    whose input is freed, and its memory taken by another tensor: refuted if the result stays,
    undecided if nobody takes it. An output that the next replay overwrites is a limit.
    """
    pool_before = device.allocator.pools().graph_pool_bytes or 0
    x = torch.zeros(COUNT, device=device.torch_device)
    replay: Any = device.capture(partial(_step, x))
    pools = device.allocator.pools()
    valid = True
    for value in range(5):
        others = _filled(device, -1.0)
        x.fill_(value)
        valid &= torch.equal(replay(), _step(x)) and all(bool((y == -1).all()) for y in others)
    output, earlier = replay(), replay().clone()
    x.fill_(1)
    replay()
    numbers: dict[str, float] = {
        "replays are right and change no other tensor": valid,
        "reserved for the graph alone [B]": (pools.graph_pool_bytes or 0) - pool_before,
        "of that, held by tensors made while capturing [B]": pools.graph_pool_live_bytes or 0,
        "an output keeps its values over the next replay": torch.equal(output, earlier),
    }
    return kept_valid(numbers, *_freed_input(device))


def _step(x: Tensor) -> Tensor:
    """Makes several tensors, of which all but the last are gone by its end."""
    inner = torch.arange(COUNT, device=x.device, dtype=torch.float32)
    return (x + inner).mul(2) + torch.ones_like(x)


def _filled(device: Hardware, value: float) -> list[Tensor]:
    return [torch.full((COUNT,), value, device=device.torch_device) for _ in range(32)]


def _freed_input(device: Hardware) -> tuple[bool, float, float]:
    """Whether another tensor took its memory, and twice the input before and after that."""
    device.allocator.release_unused()  # so that there are fewer free blocks than others
    held = [torch.full((COUNT,), 3.0, device=device.torch_device)]
    address = held[0].data_ptr()
    replay: Any = device.capture(lambda: held[0] * 2)
    before = float(replay()[0])
    held.clear()
    gc.collect()
    others = _filled(device, 7.0)
    return any(y.data_ptr() == address for y in others), before, float(replay()[0])


def kept_valid(replays: Mapping[str, float], taken: bool, before: float, after: float) -> Answer:
    """The verdict on the four numbers of replays, and on twice the freed input of 3."""
    numbers = {**replays, "twice the input of 3": before, "the same, once freed": after}
    valid, pool, held, stays = replays.values()
    if not valid or not 0 < held <= pool:
        return judged("replays are right, in memory of their own", numbers, replays)
    if not taken or after not in (before, 14.0):
        return undecided("no other tensor got the memory of the freed input", numbers)
    limits = [] if stays else ["an output is overwritten by the next replay"]
    because = "replays are right, and a freed input is not kept alive"
    return judged(because, numbers, numbers if after == before else {}, limits)


@claim(
    '"self CPU far above self CUDA, kernels short" marks launch-bound work that CUDA graphs speed '
    "up",
    "003 §13.3",
    needs="cuda",
    timed=True,
    snippet="""
        import torch
        from modescope.bench.tools.claims.cuda_graphs import forward, profiled
        from modescope.bench.devices.cuda import find

        device = find("cuda")
        for side in (64, 4096):
            cpu_s, cuda_s, kernel_s = profiled(forward(side, device), device)
            print(side, "self CPU above twice self CUDA:", cpu_s > 2 * cuda_s)
    """,
)
def profiler_launch_bound(device: Hardware) -> Answer:
    """Speedup by a CUDA graph, and self CPU and self CUDA by torch's profiler, of eight layers.

    Work is marked if self CPU is twice self CUDA or more and kernels take 10 µs or less. Holds if
    all marked work is sped up by over 1 %, undecided if none is marked.
    """
    steps = {side: forward(side, device) for side in SIDES}
    # All timing comes first: what a profiler attaches to the driver may stay there.
    gains = {side: speedup(device.capture(step), step, device) for side, step in steps.items()}
    return gains_of_marked(gains, {side: profiled(step, device) for side, step in steps.items()})


def gains_of_marked(
    gains: Mapping[int, Estimate], profiles: Mapping[int, tuple[float, float, float]]
) -> Answer:
    """The verdict on speedups by width, and on seconds of self CPU, self CUDA, and a kernel."""
    numbers: dict[str, float | Estimate] = {}
    marked = {}
    for side, (cpu_s, cuda_s, kernel_s) in profiles.items():
        numbers |= {f"self CPU, {side} wide [s]": cpu_s, f"self CUDA, {side} wide [s]": cuda_s}
        numbers[f"a kernel in the mean, {side} wide [s]"] = kernel_s
        numbers[f"sped up, {side} wide [x]"] = gains[side]
        if cpu_s >= 2 * cuda_s and kernel_s <= 10e-6:
            marked[f"sped up, {side} wide [x]"] = gains[side]
    return replace(in_range(marked, 1 + MARGIN, math.inf), numbers=numbers)


def forward(side: int, device: Hardware) -> Step:
    """Eight layers on a square of `side`, without gradients."""
    x, weight = (torch.randn(side, side, device=device.torch_device) for _ in range(2))
    weight /= side**0.5

    def step() -> Tensor:
        y = x
        for _ in range(8):
            y = functional.layer_norm(functional.gelu(torch.mm(y, weight) + 1), (side,))
        return y

    return step


def profiled(step: Step, device: Hardware, count: int = 10) -> tuple[float, float, float]:
    """Seconds of self CPU and self CUDA of a call, and of one of its kernels in the mean."""
    for _ in range(3):
        step()
    device.synchronize()
    with torch.profiler.profile(activities=list(device.activities)) as profiler:
        for _ in range(count):
            step()
        device.synchronize()
    rows: Any = profiler.key_averages()
    kernels = [r for r in rows if r.device_type.name == "CUDA" and not r.is_user_annotation]
    # Other rows of the CPU are waits for the device and the profiler's own buffers.
    own = ("aten::", "cudaLaunch", "cuLaunch")
    cpu_s = sum(row.self_cpu_time_total for row in rows if row.key.startswith(own)) * 1e-6
    cuda_s = sum(row.self_device_time_total for row in kernels) * 1e-6
    return cpu_s / count, cuda_s / count, cuda_s / max(1, sum(row.count for row in kernels))
