"""Checks of statistics and rounds with exactly known values: drawn noise, simulated clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from modescope.bench.stats import estimates as stats
from modescope.bench.timing.paired import paired
from modescope.bench.tools.selfcheck.outcomes import CHANCE, CheckRow, Setting, percent, quantile
from modescope.bench.tools.selfcheck.trials import FIXED, FIXED_ROUNDS, trial_of
from modescope.bench.tools.testbed import simulated

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]

NOMINAL = 0.94
ROUNDS = (12, 20, 60, 120)
PLANTED = 1.02
CALL_S = 250e-6


def _spiky(rng: np.random.Generator, size: tuple[int, int]) -> NDArray[np.float64]:
    return rng.normal(size=size) + 30 * (rng.random(size) < 0.05) * rng.random(size)


def _bimodal(rng: np.random.Generator, size: tuple[int, int]) -> NDArray[np.float64]:
    return rng.normal(size=size) + 10.0 * (rng.random(size) < 0.3)


# noise -> its random draw
NOISES: dict[str, Draw] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "spiky": _spiky,
    "bimodal": _bimodal,
    "quantised": lambda rng, size: np.round(rng.normal(size=size), 1),
}


def coverage(setting: Setting) -> Iterator[CheckRow]:
    """How often the interval of a median contains the true median."""
    draws = setting.count(3000, 20000)
    for noise, draw in NOISES.items():
        rng = np.random.default_rng(setting.seed)
        truth = float(np.median(draw(rng, (1, 2_000_000))))
        shares = {n: _covered(draw(rng, (draws, n)), truth) for n in ROUNDS}
        least = min(shares.values())
        yield CheckRow(
            check=f"interval coverage, {noise} noise",
            condition="drawn",
            found=", ".join(f"n={n} {percent(share)}" for n, share in shares.items()),
            accepted=f"at least {percent(NOMINAL)}",
            holds=least >= NOMINAL,
            trials=draws * len(ROUNDS),
            value=least,
        )


def _covered(samples: NDArray[np.float64], truth: float) -> float:
    estimates = [stats.median_interval(sample) for sample in samples]
    inside = [
        each is not None
        and each.low is not None
        and each.high is not None
        and each.low <= truth <= each.high
        for each in estimates
    ]
    return sum(inside) / len(inside)


def planted_ratio(setting: Setting) -> Iterator[CheckRow]:
    """How often the interval contains a ratio planted on a simulated clock with drift."""
    seeds = setting.seeds(setting.count(400, 2000), "planted ratio")
    n, inside = len(seeds), 0
    for seed in seeds:
        estimate = _simulated_speedup(seed)
        assert estimate.low is not None
        assert estimate.high is not None
        inside += estimate.low <= 1 / PLANTED <= estimate.high
    outside = 1 - stats.confidence(FIXED_ROUNDS)
    least, greatest = (n - quantile(n, outside, p) for p in (1 - CHANCE / 2, CHANCE / 2))
    yield CheckRow(
        check="planted +2 % lies inside its interval",
        condition="simulated clock",
        found=f"{inside} of {n} ({percent(inside / n)})",
        accepted=f"{least} to {greatest}: {100 - 100 * outside:.1f} % ± chance",
        holds=least <= inside <= greatest,
        trials=n,
        value=inside / n,
    )


def _simulated_speedup(seed: int) -> stats.Estimate:
    draw = random.Random(seed)
    drift = draw.uniform(-0.05, 0.05)
    of_noise, of_order = draw.randrange(2**32), draw.randrange(2**32)
    device = simulated.SimulatedDevice(queues=False, slowdown=lambda now_s: 1 + drift * now_s)
    noise = simulated.normal_noise(of_noise, 0.05)
    case = simulated.step(device, (CALL_S * PLANTED, 0.0), scale=noise)
    baseline = simulated.step(device, (CALL_S, 0.0), scale=noise)
    timed = paired(case, baseline, device, FIXED, of_order, (CALL_S, CALL_S))
    return trial_of(timed).ratio
