"""Readings whose right answer is known: planted waits, planted work, another harness's figure."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np
import torch

from bench.devices import Device, Step
from bench.peers.harnesses import DO_BENCH
from bench.peers.theirs import by_torch_timer, by_triton
from bench.selfcheck.outcomes import Outcome, Setting, percent
from bench.testbed import simulated
from bench.testbed.corunners import CONDITIONS
from bench.testbed.sides import Recipe, Side, side
from bench.testbed.workloads import delay
from bench.timers import Timing, calls_for, device_time, host, latency, pipelined, reading_cost

Timer = Callable[[Step, Device, int], Timing]

DELAYS_S = (50e-6, 200e-6, 1e-3, 10e-3)
READINGS = 50  # of both clocks, to find one pair without an interruption
PACE_WITHIN = 1e-3  # time servers slew a clock by at most half of that (adjtimex)
DELAY_SHARE, DELAY_LEAST_S = 0.005, 0.5e-6
READING_S = 0.2  # how long one reading may take

SPINS_S = tuple(np.geomspace(10e-6, 40e-3, 9).tolist())
"""About 2**14 to 2**26 cycles of a device that runs at 1.7 GHz."""

MORE_S = 200e-6
HOST_WITHIN_S, DEVICE_WITHIN_S, DEVICE_SHARE = 2e-6, 1e-6, 0.01
ALTERNATIONS = 5
TURNS = 6, 30  # of both harnesses, quick and thorough
SLOPES = 9  # in a reading of pipelined time; blocks of some ms, as theirs are
AGREES, AGREES_WITH_GRAPH = 0.02, 0.03
NEEDS_GPU = "needs a CUDA GPU"


def clock_itself(setting: Setting) -> Iterator[Outcome]:
    """The clock that times everything against one that nothing adjusts."""
    if not hasattr(time, "CLOCK_MONOTONIC_RAW"):
        yield Outcome("the clock's pace", "quiet", "no other clock here", "", None, 0)
        return
    clock, raw = setting.device.clock, partial(time.clock_gettime, time.CLOCK_MONOTONIC_RAW)
    begin, begin_raw = _at_once(clock, raw)
    delay(setting.count(1, 5))()
    end, end_raw = _at_once(clock, raw)
    off = (end - begin) / (end_raw - begin_raw) - 1
    yield Outcome(
        check="the clock's pace",
        condition="quiet",
        found=f"{off * 1e6:+.1f} millionths",
        accepted=f"within {PACE_WITHIN * 1e6:g}",
        holds=abs(off) <= PACE_WITHIN,
        trials=1,
        value=off,
    )


def _at_once(clock: Callable[[], float], raw: Callable[[], float]) -> tuple[float, float]:
    """Both clocks at one moment: of several tries the one that nothing interrupted."""
    tries = [(clock(), raw(), clock()) for _ in range(READINGS)]
    before, moment, after = min(tries, key=lambda each: each[2] - each[0])
    return (before + after) / 2, moment


def planted_delays(setting: Setting) -> Iterator[Outcome]:
    """A step that only waits, for a time that is known."""
    for condition in ("quiet", "one co-runner"):
        with CONDITIONS[condition]():
            yield from _delays(setting, condition)


def _delays(setting: Setting, condition: str) -> Iterator[Outcome]:
    device = setting.device
    for delay_s in DELAYS_S:
        calls = calls_for(setting.count(1, 5) * READING_S, delay_s, 0.0)
        read_s = latency(delay(delay_s), device, calls).median_s
        assert read_s is not None
        allowed_s = max(DELAY_SHARE * delay_s, DELAY_LEAST_S)
        yield Outcome(
            check=f"planted wait of {delay_s * 1e6:g} µs: latency",
            condition=condition,
            found=f"{(read_s - delay_s) * 1e6:+.2f} µs",
            accepted=f"within {allowed_s * 1e6:g} µs",
            holds=abs(read_s - delay_s) <= allowed_s,
            trials=calls,
            value=read_s / delay_s - 1,
        )


def planted_spins(setting: Setting) -> Iterator[Outcome]:
    """A device that is kept busy for known numbers of cycles: do its readings lie on a line?"""
    device = setting.device
    if not device.queues:
        yield Outcome("planted device work: line", "quiet", NEEDS_GPU, "", None, 0)
        return
    read_s = [_median_of(device_time, partial(device.hold, asked_s), device) for asked_s in SPINS_S]
    asked, read = np.array(SPINS_S), np.array(read_s)
    slope, start = np.polyfit(asked, read, 1, w=1 / asked)
    left = np.abs(read - (slope * asked + start))
    determined = 1 - float(np.sum(left**2) / np.sum((read - read.mean()) ** 2))
    inside = bool(np.all(left <= np.maximum(0.01 * read, 2e-6)))
    yield Outcome(
        check="planted device work: line",
        condition="quiet",
        found=f"R² {determined:.6f}, off by at most {left.max() * 1e6:.2f} µs",
        accepted="R² at least 0.9999, off by at most 1 % or 2 µs",
        holds=determined >= 0.9999 and inside,
        trials=len(SPINS_S),
        value=determined,
    )


# clock -> timer, whether it grows with more work of the host, and of the device, where the step is
# 50 µs of launching and then 300 µs of device work, with the further host work in front of it
SEPARATION: dict[str, tuple[Timer, bool, bool]] = {
    "latency_s": (latency, True, True),
    "host_s": (host, True, False),
    "device_s": (device_time, False, True),
    "pipelined_s": (pipelined, False, True),
}


def separation(setting: Setting) -> Iterator[Outcome]:
    """More work of the host must not show as device work, nor the other way round."""
    device = simulated.SimulatedDevice()
    base = (50e-6, 300e-6)
    yield from _separated(
        device,
        "simulated clock",
        simulated.step(device, base),
        simulated.step(device, (MORE_S, 0.0), base),
        simulated.step(device, base, (0.0, MORE_S)),
    )
    gpu = setting.device
    if not gpu.queues:
        yield Outcome("host and device told apart", "GPU", NEEDS_GPU, "", None, 0)
        return

    def work() -> None:
        gpu.hold(base[1])

    def more_device() -> None:
        gpu.hold(base[1] + MORE_S)

    waiting = delay(MORE_S)

    def more_host() -> None:
        waiting()
        work()

    yield from _separated(gpu, "GPU", work, more_host, more_device)


def _separated(
    device: Device, condition: str, base: Step, more_host: Step, more_device: Step
) -> Iterator[Outcome]:
    steps = (base, more_host, more_device)
    for clock, (timer, of_host, of_device) in SEPARATION.items():
        plain_s, host_s, device_s = (_median_of(timer, step, device) for step in steps)
        share_s = max(DEVICE_SHARE * plain_s, DEVICE_WITHIN_S)
        within_s = HOST_WITHIN_S if timer is host else share_s + HOST_WITHIN_S
        for work, read_s, grows in (("host", host_s, of_host), ("device", device_s, of_device)):
            truth_s = MORE_S if grows else 0.0
            yield Outcome(
                check=f"+{MORE_S * 1e6:g} µs of {work} work: {clock}",
                condition=condition,
                found=f"{(read_s - plain_s) * 1e6:+.2f} µs",
                accepted=f"{truth_s * 1e6:g} ± {within_s * 1e6:.2g} µs",
                holds=abs(read_s - plain_s - truth_s) <= within_s,
                trials=ALTERNATIONS,
                value=read_s - plain_s,
            )


def _median_of(timer: Timer, step: Step, device: Device) -> float:
    """The median of several readings of 10 calls; infinite where the timer has no answer."""
    readings = [timer(step, device, 10).median_s for _ in range(ALTERNATIONS)]
    return median(math.inf if each is None else each for each in readings)


def torch_timer(setting: Setting) -> Iterator[Outcome]:
    """The same callable through torch.utils.benchmark, in turns, with the same threads."""
    device, turns = setting.device, setting.count(*TURNS)
    for name in ("pointwise", "matmul", "linear_with_tape"):
        of = side(Recipe(name, str(device.torch_device), torch.get_num_threads()), device)
        shuffle = random.Random(f"{setting.seed} {name}")
        ratio = median(_ours_over_theirs(of, device, shuffle) for _ in range(turns))
        yield Outcome(
            check=f"pipelined_s ÷ torch.utils.benchmark, {name}",
            condition="quiet",
            found=f"{ratio:.3f}",
            accepted=f"within {percent(AGREES)} of 1",
            holds=abs(ratio - 1) <= AGREES,
            trials=turns,
            value=ratio,
        )


def _ours_over_theirs(of: Side, device: Device, shuffle: random.Random) -> float:
    """One reading of each in random order, so that a drift of the machine favours neither."""
    calls = calls_for(READING_S / 3 / SLOPES, of.call_s, reading_cost(device.clock))
    read: dict[str, Callable[[], float]] = {
        "ours": lambda: median(
            slope_s
            for _ in range(SLOPES)
            for slope_s in pipelined(of.step, device, calls).samples_s
        ),
        "theirs": lambda: median(by_torch_timer(of, READING_S)),
    }
    seconds = {name: read[name]() for name in shuffle.sample(list(read), len(read))}
    return seconds["ours"] / seconds["theirs"]


def triton_bench(setting: Setting) -> Iterator[Outcome]:
    """A large matrix product through triton.testing, which keeps the GPU busy as device_s does."""
    device = setting.device
    missing = DO_BENCH.missing(device)
    if missing:
        yield Outcome("device_s ÷ triton.testing.do_bench", "GPU", missing, "", None, 0)
        return
    a, b = torch.rand(2, 4096, 4096, device=device.torch_device, dtype=torch.bfloat16)
    work = partial(torch.mm, a, b)
    for name, within in (("do_bench", AGREES), ("do_bench_cudagraph", AGREES_WITH_GRAPH)):
        ratio = _median_of(device_time, work, device) / median(by_triton(name, work))
        yield Outcome(
            check=f"device_s ÷ triton.testing.{name}",
            condition="GPU",
            found=f"{ratio:.3f}",
            accepted=f"within {percent(within)} of 1",
            holds=abs(ratio - 1) <= within,
            trials=ALTERNATIONS,
            value=ratio,
        )
