"""How fast can this device be? Measured once per device and dtype, and remembered in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from bench import leftovers, modes
from bench.devices import Hardware, Step
from bench.roofline.floor import Ceilings
from bench.timers import device_time, latency

Build = Callable[[], Step]

GEMM_SIDES = (256, 512, 1024, 2048, 4096, 8192)
COPY_BYTES = tuple(2**power for power in (20, 22, 24, 26, 28, 30))  # read and written: 1 MiB, ...
LONGEST_CALL_S = 0.05  # a size that would take longer is left out: it would be no faster
BLOCK_S = 0.02  # calls of one size take about as long
FEWEST_CALLS, MOST_CALLS = 3, 50


def remembered(device: Hardware, dtype: str, file: Path) -> Ceilings:
    """The device's ceilings at `dtype` (fp32, tf32, bf16, fp16): from `file`, or measured into it.

    Takes memory and leaves the allocator's cache larger: not while anything else is measured.
    """
    key = " | ".join((device.facts().name, dtype, _threads(device), f"torch {torch.__version__}"))
    known = _load(file)
    if key not in known:
        known[key] = measure(device, dtype)
        _store(file, known)
    return known[key]


def measure(
    device: Hardware,
    dtype: str,
    sides: tuple[int, ...] = GEMM_SIDES,
    copy_bytes: tuple[int, ...] = COPY_BYTES,
) -> Ceilings:
    """The best rate of square matrix products, and of copies by size. Under 2 s on a CPU.

    A rate that cannot be had is None; a copy that cannot be timed is left out.
    """
    with torch.inference_mode(), _precision(dtype):
        products: list[tuple[int, float]] = []
        for transposed in (False, True):
            gemm = partial(_gemm, device, dtype, transposed)
            products += _rates(device, [(2 * n**3, partial(gemm, n)) for n in sides])
        copies = _rates(device, [(size, partial(_copy, device, size)) for size in copy_bytes])
        return Ceilings(max((rate for _, rate in products), default=None), tuple(copies))


def _rates(device: Hardware, tried: Iterable[tuple[int, Build]]) -> Iterator[tuple[int, float]]:
    """Work and its rate per second, smallest first, until the next would take too long."""
    expected_s_per_work = 0.0
    for work, build in tried:
        if work * expected_s_per_work > LONGEST_CALL_S:
            return
        best_s = _shortest_s(device, build())
        if best_s:
            yield work, work / best_s
            expected_s_per_work = best_s / work


def _shortest_s(device: Hardware, step: Step) -> float | None:
    """The best time of several calls, after a first one: a ceiling is what was reached at best."""
    step()
    (once_s,) = latency(step, device, 1).samples_s
    calls = max(FEWEST_CALLS, min(MOST_CALLS, int(BLOCK_S / once_s)))
    timer = device_time if device.queues else latency
    return min(timer(step, device, calls).samples_s, default=None)


def _gemm(device: Hardware, dtype: str, transposed: bool, side: int) -> Step:
    """A product of random numbers, as zeros would be multiplied faster.

    Transposed is how a linear layer multiplies; fp16 on a CPU is ten times as fast that way.
    """
    shape, kind, place = (side, side), modes.DTYPES[dtype], device.torch_device
    one, other = (torch.randn(shape, dtype=kind, device=place) for _ in range(2))
    right = other.t() if transposed else other
    product = torch.empty(shape, dtype=kind, device=place)
    return lambda: torch.mm(one, right, out=product)


def _copy(device: Hardware, moved_bytes: int) -> Step:
    source = torch.ones(moved_bytes // 8, dtype=torch.float32, device=device.torch_device)
    target = torch.zeros_like(source)
    return lambda: target.copy_(source)


@contextmanager
def _precision(dtype: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(modes.MATMUL_PRECISION.get(dtype, "highest"))
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _threads(device: Hardware) -> str:
    return f"{torch.get_num_threads()} thread(s)" if device.type == "cpu" else "whole device"


def _load(file: Path) -> dict[str, Ceilings]:
    """What the file knows; nothing where it cannot be read, as it can always be measured again."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {
            key: Ceilings(
                entry["flops_per_s"], tuple((size, rate) for size, rate in entry["copies"])
            )
            for key, entry in entries.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _store(file: Path, known: dict[str, Ceilings]) -> None:
    entries = {key: {"flops_per_s": c.flops_per_s, "copies": c.copies} for key, c in known.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = leftovers.partial(file)
    partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    partial.replace(file)
