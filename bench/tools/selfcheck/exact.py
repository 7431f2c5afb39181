"""Checks times against true values: planted waits and work, and the times of other harnesses."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Iterator
from functools import partial
from statistics import median

import numpy as np
import torch
from torch.utils import benchmark

from modescope.bench.devices.devices import Device, Step
from modescope.bench.stats import estimates
from modescope.bench.timing import rounds
from modescope.bench.timing.rounds import SETTLING_CALLS, Timer, quiet_gc
from modescope.bench.timing.timers import (
    SHORT_BLOCKS,
    Timing,
    calls_for,
    device_time,
    host,
    latency,
    pipelined,
    pipelined_blocks,
    reading_cost,
)
from modescope.bench.tools.selfcheck.check import NEEDS_GPU, CheckRow, Setting, percent
from modescope.bench.tools.selfcheck.workloads import CONDITIONS, build, call_s, delay

DELAYS_S = (50e-6, 200e-6, 1e-3, 10e-3)
DELAY_SHARE, DELAY_LEAST_S = 0.005, 0.5e-6
WARM_UP_CALLS = 20
READING_S = 0.2  # duration of one reading

SPINS_S = tuple(np.geomspace(10e-6, 40e-3, 9).tolist())
"""Durations of planted device work: about 2**14 to 2**26 cycles at 1.7 GHz."""

WORK_S, MORE_S = 300e-6, 200e-6  # device work of a step; additional host or device work
HOST_WITHIN_S, DEVICE_WITHIN_S, DEVICE_SHARE = 2e-6, 1e-6, 0.01
ALTERNATIONS = 5
TURNS = 200, 1000  # readings of each harness, quick and thorough
TURN_S = 1e-3  # of each
QUEUE_TURN_S = 1e-2
"""As TURN_S, on a device that queues work. There each reading by torch.utils.benchmark includes the
wait at its end (about 10 µs), which `pipelined` does not: 2 % of half a millisecond."""

AGREES, AGREES_WITH_GRAPH = 0.02, 0.03
"""By how much another harness's time may differ from ours."""

SIDE = 8192
"""Width of the square matrices whose product triton.testing times. The product takes a millisecond
on the fastest GPUs, so the gap between two events and a cold cache do not matter."""


def planted_delays(setting: Setting) -> Iterator[CheckRow]:
    """Checks the latency of steps that only wait, for a known time."""
    for condition in ("quiet", "one co-runner"):
        with CONDITIONS[condition]():
            for delay_s in DELAYS_S:
                yield _delay_row(setting, condition, delay_s)


def _delay_row(setting: Setting, condition: str, delay_s: float) -> CheckRow:
    calls = calls_for(setting.count(1, 5) * READING_S, delay_s, 0.0)
    read_s = latency(delay(delay_s), setting.device, calls).median_s
    assert read_s is not None
    off_s, allowed_s = read_s - delay_s, max(DELAY_SHARE * delay_s, DELAY_LEAST_S)
    return CheckRow(
        check=f"planted wait of {delay_s * 1e6:g} µs: latency",
        condition=condition,
        found=f"{off_s * 1e6:+.2f} µs",
        accepted=f"within {allowed_s * 1e6:g} µs",
        holds=abs(off_s) <= allowed_s,
    )


def planted_spins(setting: Setting) -> Iterator[CheckRow]:
    """Checks that device time is linear in the number of cycles for which the device spins."""
    device = setting.device
    if not device.queues:
        yield CheckRow("planted device work: linearity", "GPU", NEEDS_GPU)
        return
    read_s = [_median_of(device_time, partial(device.hold, hold_s), device) for hold_s in SPINS_S]
    requested, read = np.array(SPINS_S), np.array(read_s)
    slope, start = np.polyfit(requested, read, 1, w=1 / requested)
    left = np.abs(read - (slope * requested + start))
    determined = 1 - float(np.sum(left**2) / np.sum((read - read.mean()) ** 2))
    inside = bool(np.all(left <= np.maximum(0.01 * read, 2e-6)))
    yield CheckRow(
        check="planted device work: linearity",
        condition="quiet",
        found=f"R² {determined:.6f}, largest error {left.max() * 1e6:.2f} µs",
        accepted="R² at least 0.9999, error at most 1 % or 2 µs",
        holds=determined >= 0.9999 and inside,
    )


# clock -> its timer, whether additional host work increases it, whether additional device work does
SEPARATION: dict[str, tuple[Timer, bool, bool]] = {
    "latency_s": (latency, True, True),
    "host_s": (host, True, False),
    "device_s": (device_time, False, True),
    "pipelined_s": (pipelined, False, True),
}


def separation(setting: Setting) -> Iterator[CheckRow]:
    """Checks that more host work does not count as device time, nor device work as host time."""
    gpu = setting.device
    if not gpu.queues:
        yield CheckRow("separation of host and device time", "GPU", NEEDS_GPU)
        return
    work, wait = partial(gpu.hold, WORK_S), delay(MORE_S)

    def more_host() -> None:
        wait()
        work()

    yield from separation_rows(gpu, work, more_host, partial(gpu.hold, WORK_S + MORE_S))


def separation_rows(
    device: Device, step: Step, more_host: Step, more_device: Step
) -> Iterator[CheckRow]:
    """Yields two rows per timer: how much its time grows with more host and more device work.

    `more_host` and `more_device` are `step` with MORE_S of additional host or device work. A row
    passes if the timer that should see this work grows by about MORE_S, and another by about 0.
    """
    for clock, (timer, of_host, of_device) in SEPARATION.items():
        plain_s, host_s, device_s = (
            _median_of(timer, timed, device) for timed in (step, more_host, more_device)
        )
        share_s = max(DEVICE_SHARE * plain_s, DEVICE_WITHIN_S)
        within_s = HOST_WITHIN_S if timer is host else share_s + HOST_WITHIN_S
        for work, read_s, grows in (("host", host_s, of_host), ("device", device_s, of_device)):
            truth_s = MORE_S if grows else 0.0
            yield CheckRow(
                check=f"+{MORE_S * 1e6:g} µs of {work} work: {clock}",
                condition="GPU",
                found=f"{(read_s - plain_s) * 1e6:+.2f} µs",
                accepted=f"{truth_s * 1e6:g} ± {within_s * 1e6:.2g} µs",
                holds=abs(read_s - plain_s - truth_s) <= within_s,
            )


def _median_of(timer: Timer, step: Step, device: Device) -> float:
    readings = [timer(step, device, 10).median_s for _ in range(ALTERNATIONS)]
    return median(math.inf if reading is None else reading for reading in readings)


def torch_timer(setting: Setting) -> Iterator[CheckRow]:
    """Checks `pipelined` (calls that follow each other) against torch.utils.benchmark."""
    device, turns = setting.device, setting.count(*TURNS)
    for name in ("pointwise", "matmul", "linear_with_tape"):
        step = build(name, device)
        latency(step, device, WARM_UP_CALLS)
        ratio = ours_over_theirs(
            step, call_s(step, device), device, turns, f"{setting.seed} {name}"
        )
        yield _agreement(f"pipelined_s ÷ torch.utils.benchmark, {name}", "quiet", ratio, AGREES)


def _agreement(check: str, condition: str, ratio: float, within: float) -> CheckRow:
    return CheckRow(
        check=check,
        condition=condition,
        found=f"{ratio:.3f}",
        accepted=f"within {percent(within)} of 1",
        holds=abs(ratio - 1) <= within,
    )


def ours_over_theirs(step: Step, call_s: float, device: Device, turns: int, seed: str) -> float:
    """Returns the time by `pipelined` ÷ that by torch.utils.benchmark: the median of `turns` turns.

    A turn is a short reading by each, in an order drawn with `seed`. The ratio within a turn stays
    right on a machine that changes its pace, which a ratio of two long readings does not. `call_s`
    is the approximate time of a call.
    """
    threads = torch.get_num_threads()
    timer = benchmark.Timer("step()", globals={"step": step}, num_threads=threads)

    def theirs(step: Step, device: Device, calls: int) -> Timing:
        """Returns a call's times by torch's timer, in as many blocks as `pipelined`, each as long.

        The mean of a longer block would have more interruptions. `Measurement.mean` is not used: it
        computes quantiles with tensors, which made the next block of a step that records for
        backward 2 % slower.
        """
        blocks = 1 if device.queues else min(SHORT_BLOCKS, calls)
        number = pipelined_blocks(device) * calls // blocks
        measured = [timer.timeit(number) for _ in range(blocks)]
        return Timing(tuple(reading.raw_times[0] / number for reading in measured))

    turn_s = QUEUE_TURN_S if device.queues else TURN_S
    block_s = turn_s / pipelined_blocks(device)
    calls = calls_for(block_s, call_s, reading_cost(device.clock))
    sides = (rounds.Side(step, read, calls, SETTLING_CALLS) for read in (pipelined, theirs))
    clock = rounds.Clock("pipelined", tuple(sides))
    with quiet_gc():
        planned = rounds.orders([clock], turns, random.Random(seed))
        played = rounds.play([clock], planned, device, deadline=math.inf)
    ours, others = (rounds.medians(played, 0, side) for side in (0, 1))
    ratio = estimates.ratio(ours, others)
    assert ratio is not None
    return ratio.value


def triton_bench(setting: Setting) -> Iterator[CheckRow]:
    """Checks the device time of a large matrix product against triton.testing.

    The matrices are zeros. With other numbers a GPU reaches its power limit and lowers its clock,
    the more so the longer a harness keeps it busy without a pause.
    """
    device = setting.device
    if not device.queues:
        yield CheckRow("device_s ÷ triton.testing.do_bench", "GPU", NEEDS_GPU)
        return
    testing = importlib.import_module("triton.testing")
    a, b = torch.zeros(2, SIDE, SIDE, device=device.torch_device, dtype=torch.bfloat16)
    work = partial(torch.mm, a, b)
    for name, within in (("do_bench", AGREES), ("do_bench_cudagraph", AGREES_WITH_GRAPH)):
        theirs_ms = getattr(testing, name)(work, return_mode="all")
        ratio = _median_of(device_time, work, device) / (median(theirs_ms) * 1e-3)
        yield _agreement(f"device_s ÷ triton.testing.{name}", "GPU", ratio, within)
