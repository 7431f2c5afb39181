"""One comparison of two steps in this process, with the results that checks need."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tqdm import tqdm

from modescope.bench.devices.devices import Device
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import Rounds
from modescope.bench.stats import diagnostics, estimates
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import contention, memory_layout
from modescope.bench.timing.comparison import compare, flags
from modescope.bench.tools.selfcheck.outcomes import Setting
from modescope.bench.tools.testbed.workloads import Workload

BLOCK_S = 0.001
WARM_UP_S = 0.05  # these steps settle at once: nothing compiles and nothing is large
PILOT_ROUNDS = 12
FIXED_ROUNDS = 120  # as many as budget=quick plays where the noise is large


def adaptive(timed_max_s: float, half_width: float = 0.005, max_rounds: int = 120) -> Budget:
    """A budget in which a pilot decides on 20 rounds or more; by default like budget=quick."""
    return _budget(20, max_rounds, half_width, timed_max_s)


def _budget(low: int, high: int, half_width: float, timed_max_s: float) -> Budget:
    return Budget(
        name="selfcheck",
        rank=0,
        warmup_min_s=WARM_UP_S,
        warmup_max_s=1.0,
        block_s=BLOCK_S,
        pilot_rounds=PILOT_ROUNDS,
        min_rounds=low,
        max_rounds=high,
        half_width=half_width,
        timed_max_s=timed_max_s,
        clock_rounds=1,
    )


FIXED = _budget(FIXED_ROUNDS, FIXED_ROUNDS, 1e-9, 60.0)
"""Always FIXED_ROUNDS rounds, so that a disturbance can follow the number of the round."""


@dataclass(frozen=True)
class Trial:
    """The result of one comparison."""

    ratio: Estimate  # speedup of the case over the baseline
    flags: tuple[str, ...]
    timed_s: float
    log_ratios: tuple[float, ...] = field(repr=False)  # baseline over case, by round
    watched: bool = True  # whether the system reports the load of other processes

    @property
    def sign(self) -> int:
        """1 if the interval lies above 1 (faster), -1 below, 0 if it contains 1 or is unknown."""
        if self.ratio.low is None or self.ratio.high is None:
            return 0
        return (self.ratio.low > 1) - (self.ratio.high < 1)

    @property
    def verdict_sign(self) -> int:
        """The same beyond the verdict's margin."""
        return {"faster": 1, "slower": -1}.get(str(estimates.verdict(self.ratio)), 0)


def race(
    case: Workload,
    baseline: Workload,
    device: Device,
    budget: Budget,
    seed: int,
    redraw: memory_layout.Redraw | None = None,
) -> Trial:
    """Warm-up and paired rounds of two steps, with a new memory layout per block by default."""
    before = contention.read()
    elsewhere = redraw or memory_layout.anew([*case.tensors, *baseline.tensors], device, seed)
    compared = compare(case, baseline, device, budget, seed, elsewhere)
    load = contention.between(before, contention.read())
    watched = load.cpu_wait_s is not None or load.others_cpu_s is not None
    trial = trial_of(compared.rounds)
    return replace(trial, flags=flags(compared, load), watched=watched)


def trial_of(rounds: Rounds) -> Trial:
    """The ratio and the flags of paired rounds."""
    case_s, baseline_s = rounds.latency_rounds_s, rounds.baseline_latency_rounds_s
    ratio = estimates.speedup(case_s, baseline_s, rounds.case_ran_first)
    assert ratio is not None
    assert case_s is not None
    assert baseline_s is not None
    assert rounds.timed_s is not None
    flags = diagnostics.flags(case_s, baseline_s, rounds.case_ran_first)
    pairs = zip(case_s, baseline_s, strict=True)
    log_ratios = tuple(math.log(theirs / ours) for ours, theirs in pairs)
    return Trial(ratio, flags, rounds.timed_s, log_ratios=log_ratios)


def seeds(setting: Setting, n: int, title: str) -> Iterator[int]:
    """A seed for each trial, with a progress bar on a terminal."""
    yield from tqdm(setting.seeds(n, title), desc=title, leave=False, disable=None)
