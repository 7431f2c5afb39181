"""One comparison of two steps in this process, with everything that a check asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tqdm import tqdm

from bench import contention, diagnostics, placement, stats
from bench.devices import Device
from bench.records import Budget
from bench.rounds import paired, warm_up
from bench.selfcheck.outcomes import Setting
from bench.selfcheck.witness import Witness
from bench.stats import Estimate
from bench.testbed.workloads import Workload

BLOCK_S = 0.001
WARM_UP_S = 0.05  # steps built a moment ago settle at once: nothing compiles and nothing is large
PILOT_ROUNDS = 12
FIXED_ROUNDS = 60


def adaptive(timed_max_s: float, half_width: float = 0.005, max_rounds: int = 120) -> Budget:
    """A pilot decides on 20 rounds or more, like budget=quick unless said otherwise."""
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
"""Always FIXED_ROUNDS rounds, so that a disturbance can be planted by their number."""


@dataclass(frozen=True)
class Trial:
    """What one comparison says."""

    ratio: Estimate  # how many times as fast as the baseline the case is
    flags: tuple[str, ...]
    timed_s: float
    watched: bool = True  # whether the system says what others do
    kept_pace: bool | None = None  # whether the machine did; None where no witness was asked

    @property
    def sign(self) -> int:
        """1 where the interval lies above 1 (faster), -1 below, 0 where it holds 1 or is none."""
        if self.ratio.low is None or self.ratio.high is None:
            return 0
        return (self.ratio.low > 1) - (self.ratio.high < 1)

    @property
    def verdict_sign(self) -> int:
        """The same beyond the verdict's margin."""
        return {"faster": 1, "slower": -1}.get(str(stats.verdict(self.ratio)), 0)


def race(
    case: Workload,
    baseline: Workload,
    device: Device,
    budget: Budget,
    seed: int,
    redraw: placement.Redraw | None = None,
    witness: Workload | None = None,
) -> Trial:
    """Warm-up and paired rounds of two steps, whose memory is placed anew unless said how.

    A `witness` is timed between their blocks, half as long.
    """
    before = contention.read()
    warmth = warm_up([case, baseline], device, budget)
    elsewhere = redraw or placement.anew([*case.tensors, *baseline.tensors], device, seed)
    watch = None if witness is None else Witness(witness, device, budget.block_s / 2, seed)
    between = elsewhere if watch is None else watch.before(elsewhere)
    rounds = paired(case, baseline, device, budget, seed, warmth.per_call_s, between)
    seen = contention.between(before, contention.read())
    ratio = stats.speedup(rounds.case_s, rounds.baseline_s)
    assert ratio is not None
    flags = diagnostics.raised(rounds.case_s, rounds.baseline_s, rounds.case_first)
    conditions = {"no_steady_state": not warmth.steady, "contended": contention.contended(seen)}
    up = tuple(name for name, is_up in conditions.items() if is_up)
    watched = seen.cpu_wait_s is not None or seen.others_cpu_s is not None
    kept_pace = None if watch is None else watch.kept_pace()
    return Trial(ratio, (*flags, *up), rounds.seconds, watched, kept_pace)


def seeds(setting: Setting, n: int, title: str) -> Iterator[int]:
    """A seed for each trial, with a bar on a terminal."""
    yield from tqdm(setting.seeds(n, title), desc=title, leave=False, disable=None)
