"""Chooses which implementation of scaled_dot_product_attention torch may use (`mode.attention`).

torch's switches belong to the process. Uncompiled code reads them in every call; compiled code has
the implementation that they allowed when it was compiled, and the compiler's cache does not know
them. `torch.nn.attention.sdpa_kernel` sets the same switches for a block, which costs 20 µs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modescope.bench.records.environment import DeviceFacts

DEFAULT = "default"

SWITCHES = {
    "math": "enable_math_sdp",
    "flash": "enable_flash_sdp",
    "efficient": "enable_mem_efficient_sdp",
    "cudnn": "enable_cudnn_sdp",
}
"""Maps each value of `mode.attention` to the function of torch.backends.cuda that allows it. In
spite of that name, the first two are for CPUs, too."""

ON_CPU = ("math", "flash")

ANY = "scaled_dot_product"
"""A part of the names of all operators of attention."""

_IN_NAMES = {
    "_attention_math": "math",
    "_flash_attention": "flash",
    "_efficient_attention": "efficient",
    "_cudnn_attention": "cudnn",
}


def use(value: str) -> None:
    """Sets torch's switches: `value` alone is allowed, or all that torch has by default."""
    import torch  # here, because the command line reads the table of axes without torch

    for name, function in SWITCHES.items():
        getattr(torch.backends.cuda, function)(value in (DEFAULT, name))


def names(operators: Iterable[str]) -> list[str]:
    """Returns those of `operators` that are an implementation of attention, sorted."""
    found = (name for name in operators if ANY in name)
    return sorted(name for name in found if any(part in name for part in _IN_NAMES))


def read(operators: Collection[str], in_eager: Collection[str]) -> str:
    """Returns which implementation ran in a call: `math`, `flash`; several joined; or `none`.

    `operators` ran in the call, `in_eager` in the same call neither compiled nor captured. The
    compiler makes other operators of `math`, so code that has no attention of what eager has, and
    could run only that, is taken for `math`.
    """
    found = {kind for name in names(operators) for part, kind in _IN_NAMES.items() if part in name}
    if not found and any(ANY in name for name in in_eager):
        return "math"
    return ", ".join(sorted(found)) or "none"


def refusal(value: str, device: DeviceFacts) -> str | None:
    """Says that `device` lacks the implementation `value`; None if it may have it."""
    if device.type == "cuda" or value in ON_CPU:
        return None
    return (
        f"attention={value} needs an NVIDIA GPU: on a CPU torch has math and flash; use "
        "mode.attention=math"
    )


def code(value: str, compiles: bool) -> tuple[str, ...]:
    """Returns the lines of a user's program that allow `value` alone, for the whole process."""
    others = (function for name, function in SWITCHES.items() if name != value)
    lines = [f"torch.backends.cuda.{function}(False)" for function in others]
    lines[0] += f"  # so that attention={value} is left"
    if compiles:
        lines.append(
            f'torch.compiler.config.cache_key_tag = "attention={value}"'
            "  # which the cache of compiled code does not know"
        )
    return tuple(lines)
