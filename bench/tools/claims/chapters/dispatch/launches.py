"""What a profile says of work that launching holds up, and what a CUDA graph makes of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from modescope.bench.stats.estimates import MARGIN
from modescope.bench.tools.claims import lab

FAR_ABOVE = 2.0  # self CPU ÷ self CUDA
SHORT_S = 10e-6  # a kernel
WORTH = 1.1  # a speedup that counts as one for work that is not marked
PROFILED, WARM_UPS = 10, 3
OPERATORS = ("aten::", "cudaLaunch", "cuLaunch")
"""Rows whose self CPU counts. Others are waits for the device and the profiler's own buffers."""

LAYERS = 8
SIDES = (64, 256, 1024, 4096)


def marked_is_sped_up(o: lab.Observed) -> lab.Rule:
    """Refuted if marked work is not sped up by over 1 %; a limit if other work is, by over 10 %.

    Marked: self CPU is twice self CUDA or more, and kernels take 10 µs or less in the mean.
    Undecided if none or all are marked, or an interval contains its bound; where other work is a
    limit, another interval that contains 1.1 is one, too.
    """

    def is_marked(name: str, _: object) -> bool:
        far = o.self_cpu_s[name] >= FAR_ABOVE * o.self_cuda_s[name]
        return bool(far and o.kernel_s[name] <= SHORT_S)

    marked = o.speedups.only(is_marked)
    others = o.speedups.only(lambda name, each: not is_marked(name, each))
    yield lab.undecided_if(not marked or not others, "none or all of the forwards are marked here")
    gains, unmarked = lab.placed(marked, 0.0, 1 + MARGIN), lab.placed(others, 0.0, WORTH)
    yield lab.require("marked work is sped up", not gains.within, gains.within.say_all())
    yield lab.undecided_if(bool(gains.unclear), lab.unclear(gains.unclear, 1 + MARGIN))
    yield lab.holds(f"marked: {lab.extremes(marked)}; others: {lab.extremes(others)}")
    yield lab.each_a_limit(unmarked.above, "sped up without the mark, too: ")
    cut = lab.unclear(unmarked.unclear, WORTH)
    yield lab.undecided_if(bool(unmarked.unclear) and not unmarked.above, f"not marked: {cut}")
    yield lab.limit_if(bool(unmarked.unclear), cut)


@lab.claim(
    '"self CPU far above self CUDA, kernels short" marks launch-bound work that CUDA graphs speed '
    "up",
    "003 §13.3",
    needs="cuda",
    timed=True,
    limit_s=120,
    rule=marked_is_sped_up,
    figures={
        "self_cpu_s": "self CPU of [s]",
        "self_cuda_s": "self CUDA of [s]",
        "kernel_s": "a kernel's length in the mean, of [s]",
        "speedups": "speedup by a CUDA graph of [x]",
    },
    snippet="""
        import torch
        from modescope.bench.tools.claims.chapters.dispatch.launches import forward, profiled
        from modescope.bench.devices.cuda import find

        device = find("cuda")
        for side in (64, 4096):
            cpu_s, cuda_s, kernel_s = profiled(forward(side, device), device)
            print(side, "self CPU above twice self CUDA:", cpu_s > 2 * cuda_s)
    """,
)
def profiler_launch_bound(device: lab.Hardware) -> lab.Values:
    """Self CPU and self CUDA, by torch's profiler, of eight layers as long as wide.

    The CPU's of operators and launches; and the same replayed as a CUDA graph against eager.
    """
    steps = {f"{side} wide": forward(side, device) for side in SIDES}
    # All timing comes first: what a profiler attaches to the driver may stay there.
    speedups = {n: lab.speedup(device.capture(step), step, device) for n, step in steps.items()}
    yield from lab.columns({name: profiled(step, device) for name, step in steps.items()})
    yield speedups


def forward(side: int, device: lab.Hardware) -> lab.Step:
    """Layers on a square of `side`, without gradients."""
    x, weight = (torch.randn(side, side, device=device.torch_device) for _ in range(2))
    weight /= side**0.5
    bias = torch.zeros(side, device=device.torch_device)

    def step() -> Tensor:
        y = x
        for _ in range(LAYERS):
            y = functional.layer_norm(functional.gelu(torch.mm(y, weight) + bias), (side,))
        return y

    return step


def profiled(step: lab.Step, device: lab.Hardware) -> tuple[float, float, float]:
    """Seconds of self CPU and self CUDA of a call, and of one of its kernels in the mean."""
    for _ in range(WARM_UPS):
        step()
    device.synchronize()
    with torch.profiler.profile(activities=list(device.activities)) as profiler:
        for _ in range(PROFILED):
            step()
        device.synchronize()
    rows: Any = profiler.key_averages()
    on_device = [
        row for row in rows if row.device_type.name == "CUDA" and not row.is_user_annotation
    ]
    cpu_us = sum(row.self_cpu_time_total for row in rows if row.key.startswith(OPERATORS))
    cuda_us = sum(row.self_device_time_total for row in on_device)
    kernels = sum(row.count for row in on_device)
    mean_us = cuda_us / kernels if kernels else 0.0
    return cpu_us / PROFILED * 1e-6, cuda_us / PROFILED * 1e-6, mean_us * 1e-6
