"""Measures the highest FLOP and byte rates that a device reaches, once for all studies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path

import torch

from modescope.bench.devices import processor
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.modes import fp32_products, modes
from modescope.bench.records import files
from modescope.bench.records.cases import short_hash
from modescope.bench.stats import diagnostics
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import contention
from modescope.bench.timing.timers import device_time, latency

MakeStep = Callable[[], Step]

GEMM_SIDES = (256, 512, 1024, 2048, 4096, 8192)
TRANSFER_BYTES = tuple(2**power for power in range(18, 31, 2))  # 256 KiB to 1 GiB
LONGEST_CALL_S = 0.05  # sizes that would take longer are left out: their rate is no higher
BLOCKS = 5  # of each size; the best counts, as others may have been interrupted
BLOCK_S = 0.005  # calls of one block take about as long
FEWEST_CALLS, MOST_CALLS = 1, 50

CONTENDED = (
    "the ceilings were measured while other processes used the machine, so they may be too low; "
    "the next run measures them again"
)

UNKNOWN = Ceilings(None, ())

UNMEASURED = (
    "a smoke budget does not measure the ceilings: its times are too short to be compared with them"
)


def measure(
    device: Hardware,
    dtype: str,
    sides: tuple[int, ...] = GEMM_SIDES,
    transfer_bytes: tuple[int, ...] = TRANSFER_BYTES,
) -> Ceilings:
    """Measures the best rate of square matrix products, and of memory transfers by size.

    `sides` are the sides of the matrices. `transfer_bytes` are the bytes that a transfer moves: by
    a copy (half read, half written) and by a mere read, of which the faster counts, on most CPUs
    the read. A rate of products that cannot be measured is None, and a transfer that cannot be
    timed is left out. It takes 2 to 3 s on a CPU.
    """
    with torch.inference_mode(), fp32_products.kept():
        fp32_products.use(dtype)
        products: list[tuple[int, float]] = []
        for transposed in (False, True):
            gemm = partial(_gemm, device, dtype, transposed)
            products += _rates(device, [(2 * n**3, partial(gemm, n)) for n in sides])
        transfers: dict[int, float] = {}
        for build in (_copy, _read):
            of_size = [(size, partial(build, device, size)) for size in transfer_bytes]
            for size, rate in _rates(device, of_size):
                transfers[size] = max(rate, transfers.get(size, 0.0))
    fastest = max((rate for _, rate in products), default=None)
    return Ceilings(fastest, tuple(sorted(transfers.items())))


def _rates(device: Hardware, tried: Iterable[tuple[int, MakeStep]]) -> Iterator[tuple[int, float]]:
    """Yields each amount of work in `tried` (FLOPs or bytes) with its rate per second.

    `tried` pairs an amount with a function that builds the step that does it. The amounts must
    increase: it stops at the first that would take longer than LONGEST_CALL_S.
    """
    expected_s_per_work = 0.0
    for work, build in tried:
        if work * expected_s_per_work > LONGEST_CALL_S:
            return
        best_s = _shortest_s(device, build())
        if best_s:
            yield work, work / best_s
            expected_s_per_work = best_s / work


def _shortest_s(device: Hardware, step: Step) -> float | None:
    """Returns the shortest time of a call of `step` in seconds; None if no sample was taken.

    On a device that queues work, a sample is the mean device time of several calls.
    """
    step()
    (once_s,) = latency(step, device, 1).samples_s
    calls = max(FEWEST_CALLS, min(MOST_CALLS, int(BLOCK_S / once_s)))
    timer = device_time if device.queues else latency
    blocks = [timer(step, device, calls).samples_s for _ in range(BLOCKS)]
    return min(chain.from_iterable(blocks), default=None)


def _gemm(device: Hardware, dtype: str, transposed: bool, side: int) -> Step:
    """Returns a step that multiplies square random matrices, because zeros are multiplied faster.

    `transposed`: the right matrix is transposed, as in a linear layer. That is ten times as fast in
    fp16 on a CPU.
    """
    shape, kind, place = (side, side), modes.DTYPES[dtype], device.torch_device
    left, other = (torch.randn(shape, dtype=kind, device=place) for _ in range(2))
    right = other.t() if transposed else other
    product = torch.empty(shape, dtype=kind, device=place)
    return lambda: torch.mm(left, right, out=product)


def _copy(device: Hardware, moved_bytes: int) -> Step:
    source = torch.ones(moved_bytes // 8, dtype=torch.float32, device=device.torch_device)
    target = torch.zeros_like(source)
    return lambda: target.copy_(source)


def _read(device: Hardware, moved_bytes: int) -> Step:
    source = torch.ones(moved_bytes // 4, dtype=torch.float32, device=device.torch_device)
    total = torch.zeros((), dtype=torch.float32, device=device.torch_device)
    return lambda: torch.sum(source, 0, out=total)


def ceilings(
    device: Hardware, dtype: str, file: Path, measures: bool = True
) -> tuple[Ceilings, str | None]:
    """Returns the highest FLOP and byte rates of `device` at `dtype`, and a warning or None.

    `dtype` is that of a variant. The rates are read from `file`, or measured and added to it. If
    other processes used the machine meanwhile, there is a warning and nothing is added. Unless it
    `measures`, rates that are not in `file` are unknown, and the warning says why. Measure nothing
    else at the same time, because this takes about 1 GiB of memory.
    """
    key, known = _key(device, dtype), _load(file)
    if key in known:
        return known[key], None
    if not measures:
        return UNKNOWN, UNMEASURED
    device.allocator.release_unused()
    users, before = [device.other_processes()], contention.read()
    measured = measure(device, dtype)
    seen = contention.load_between(before, contention.read())
    users.append(device.other_processes())
    device.allocator.release_unused()
    most = max((count for count in users if count is not None), default=None)
    if diagnostics.is_contended(seen, most):
        return measured, CONTENDED
    entries = {key: asdict(rates) for key, rates in (_load(file) | {key: measured}).items()}
    with files.atomic_write(file) as partial:  # others may have extended it meanwhile
        partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    return measured, None


def _key(device: Hardware, dtype: str) -> str:
    parts = [device.facts().name, dtype, "whole device"]
    if device.type == "cpu":
        hashed, threads = short_hash(asdict(processor.read())), torch.get_num_threads()
        parts = [device.facts().name, hashed, dtype, f"{threads} thread(s)"]
    return " | ".join([*parts, f"torch {torch.__version__}"])


def _load(file: Path) -> dict[str, Ceilings]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8")).items()
        return {
            key: Ceilings(raw["flops_per_s"], tuple(map(tuple, raw["transfers"])))
            for key, raw in entries
        }
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}
