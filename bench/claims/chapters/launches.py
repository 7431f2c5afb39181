"""What a profile says of work that launching holds up, and what a CUDA graph makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims import ranges
from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.claims.measuring import speedup
from bench.devices import Hardware, Step
from bench.stats import MARGIN, Estimate

FAR_ABOVE = 2.0  # self CPU ÷ self CUDA
SHORT_S = 10e-6  # a kernel
WORTH = 1.1  # a speedup that counts as one for work that is not marked

PROFILED = 10
WARM_UPS = 3
OPERATORS = ("aten::", "cudaLaunch", "cuLaunch")
"""Rows whose self CPU counts. Others are waits for the device and the profiler's own buffers."""

LAYERS = 8
SIDES = (64, 256, 1024, 4096)


@dataclass(frozen=True)
class Marks:
    """Forwards of layers of growing width, as a profile shows them, and what a graph saves."""

    self_cpu_s: Annotated[Mapping[str, float], "self CPU of", "s"]
    self_cuda_s: Annotated[Mapping[str, float], "self CUDA of", "s"]
    kernel_s: Annotated[Mapping[str, float], "a kernel's length in the mean, of", "s"]
    speedups: Annotated[Mapping[str, Estimate], "speedup by a CUDA graph of", "x"]

    def marked(self, name: str) -> bool:
        """Self CPU far above self CUDA, and kernels short."""
        cpu_s, cuda_s = self.self_cpu_s[name], self.self_cuda_s[name]
        return cpu_s >= FAR_ABOVE * cuda_s and self.kernel_s[name] <= SHORT_S


def marked_is_sped_up(seen: Marks) -> Verdict:
    """Marked: self CPU is twice self CUDA or more, and kernels take 10 µs or less in the mean.

    Refuted if the interval of a marked one's speedup lies below 1.01; undecided if one contains
    1.01, or if none or all are marked. Within limits if the interval of one that is not marked
    lies above 1.1; else undecided if one contains 1.1, or there is none; else holds.
    """
    marked = {name: each for name, each in seen.speedups.items() if seen.marked(name)}
    others = {name: each for name, each in seen.speedups.items() if name not in marked}
    if not marked or not others:
        return inconclusive(f"{'none' if others else 'all'} of the forwards are marked here")
    gains = ranges.placed(marked, 0.0, 1 + MARGIN)
    if gains.within:
        return refuted("marked work is not sped up", _listed(gains.within))
    if gains.undecided:
        return inconclusive(_cut(1 + MARGIN, gains.undecided))
    told = f"marked: {_listed(marked)}; others: {_listed(others)}"
    unmarked = ranges.placed(others, 0.0, WORTH)
    cut = [_cut(WORTH, unmarked.undecided)] if unmarked.undecided else []
    if unmarked.above:
        above = f"sped up without the mark, too: {_listed(unmarked.above)}"
        return within_limits(told, above, *cut)
    return inconclusive(f"not marked: {cut[0]}") if cut else holds(told)


def _cut(bound: float, some: Mapping[str, Estimate]) -> str:
    return f"the interval has {bound:g} inside, or there is none: {_listed(some)}"


def _listed(some: Mapping[str, Estimate]) -> str:
    return ", ".join(f"{name} {each.value:.2f} times as fast" for name, each in some.items())


@claim(
    id="profiler-launch-bound",
    statement='"self CPU far above self CUDA, kernels short" marks launch-bound work that CUDA '
    "graphs speed up",
    source=("003 §13.3",),
    needs=("cuda",),
    decide=marked_is_sped_up,
    timed=True,
    limit_s=120,
    snippet="""
        import torch
        from bench.claims.chapters.launches import forward, profiled
        from bench.devices import find

        device = find("cuda")
        for side in (64, 4096):
            cpu_s, cuda_s, kernel_s = profiled(forward(side, device), device)
            print(side, "self CPU above twice self CUDA:", cpu_s > 2 * cuda_s)
    """,
)
def profiler_launch_bound(device: Hardware) -> Marks:
    """Eight layers (product, bias, GELU, layer norm) on as many rows as they are wide.

    Of 64 to 4096: self CPU (of operators and launches) and self CUDA by torch's profiler;
    and the same replayed as a CUDA graph against eager, in paired rounds.
    """
    steps = {f"{side} wide": forward(side, device) for side in SIDES}
    # All timing comes first: what a profiler attaches to the driver may stay there.
    speedups = {name: speedup(device.capture(step), step, device) for name, step in steps.items()}
    found = {name: profiled(step, device) for name, step in steps.items()}
    cpu_s, cuda_s, kernel_s = ({name: each[i] for name, each in found.items()} for i in range(3))
    return Marks(cpu_s, cuda_s, kernel_s, speedups)


def forward(side: int, device: Hardware) -> Step:
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


def profiled(step: Step, device: Hardware) -> tuple[float, float, float]:
    """Seconds of self CPU and self CUDA of a call, and of one of its kernels in the mean."""
    for _ in range(WARM_UPS):
        step()
    device.synchronize()
    with torch.profiler.profile(activities=list(device.activities)) as profiler:
        for _ in range(PROFILED):
            step()
        device.synchronize()
    rows = profiler.key_averages()
    on_device = [row for row in rows if _is_kernel(row)]
    cpu_us = sum(row.self_cpu_time_total for row in rows if row.key.startswith(OPERATORS))
    cuda_us = sum(row.self_device_time_total for row in on_device)
    kernels = sum(row.count for row in on_device)
    mean_us = cuda_us / kernels if kernels else 0.0
    return cpu_us / PROFILED * 1e-6, cuda_us / PROFILED * 1e-6, mean_us * 1e-6


def _is_kernel(row: Any) -> bool:
    """A row of the device itself, not of an operator that called it or of a named range."""
    return bool(row.device_type.name == "CUDA" and not row.is_user_annotation)
