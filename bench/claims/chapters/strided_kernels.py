"""What kernels cost that are given transposed memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from bench.claims import ranges
from bench.claims.claim import Verdict, claim
from bench.claims.measuring import speedup
from bench.devices import Hardware
from bench.stats import Estimate

SIDE = 8192  # 256 MiB of float32: more than any cache of a GPU
FACTOR = (5.0, 10.0)

# what -> the call on contiguous tensors and the same on transposed ones
PAIRS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "x.T.relu()": (lambda x: x.relu(), lambda x: x.T.relu()),
    "x + x.T": (lambda x: x + x, lambda x: x + x.T),
    "gelu(x.T)": (functional.gelu, lambda x: functional.gelu(x.T)),
    "softmax(x.T)": (lambda x: x.softmax(-1), lambda x: x.T.softmax(-1)),
    "layer_norm(x.T)": (
        lambda x: functional.layer_norm(x, (x.shape[-1],)),
        lambda x: functional.layer_norm(x.T, (x.shape[0],)),
    ),
}


@dataclass(frozen=True)
class Slower:
    """How many times as long calls take on a transposed tensor."""

    factors: Annotated[Mapping[str, Estimate], "time of the same on contiguous memory, of", "x"]


def five_to_ten_times(seen: Slower) -> Verdict:
    """Holds if the interval of every factor lies within 5 to 10.

    Within limits if some lie within and others outside; refuted if all lie outside; undecided if a
    bound inside an interval, or one that is missing, leaves it open.
    """
    found = ranges.placed(seen.factors, *FACTOR)
    return ranges.verdict(found, ("5", "10"), lambda factor: f"{factor:.2f} times as long")


@claim(
    id="strided-kernel-slow",
    statement="fused or elementwise CUDA kernels given a transposed input fall back to a strided "
    "kernel 5 to 10 times slower",
    source=("003 §3.3",),
    needs=("cuda",),
    decide=five_to_ten_times,
    timed=True,
    limit_s=180,
    snippet="""
        import torch
        from torch.utils.benchmark import Timer

        x = torch.rand(8192, 8192, device="cuda")
        for code in ("x + x", "x + x.T", "x.relu()", "x.T.relu()"):
            print(code, Timer(code, globals={"x": x}).blocked_autorange().median)
    """,
)
def strided_kernel_slow(device: Hardware) -> Slower:
    """Time of elementwise and fused calls on a transposed tensor ÷ the same on a contiguous one.

    Of 8192 × 8192 float32, in paired rounds.
    """
    x = torch.rand(SIDE, SIDE, device=device.torch_device)
    return Slower(
        {
            what: speedup(partial(plain, x), partial(strided, x), device)
            for what, (plain, strided) in PAIRS.items()
        }
    )
