"""Rules of a comparison, counted on simulated processes: 40 rows, 0.4 % between processes.

Each process reads its speedup with an error of 0.15 % of its own. With `shift`, the two sides were
measured at different hours, which move each row by 0.3 % a side.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from modescope.analysis import changes
from modescope.analysis.changes import LogChange, LogTimes
from modescope.analysis.compare import verdicts
from modescope.analysis.compare.verdicts import Margins, TimingVerdict

BETWEEN, WITHIN, SHIFT, ROWS = 0.004, 0.0015, 0.003, 40
LATENCY = 0.021
"""Spread of raw latencies between processes."""

MARGINS = Margins(changes.log_margin(0.01), changes.log_margin(0.02))


def sides(
    trials: int, processes: int, change: float = 0.0, shift: float = 0.0
) -> tuple[LogTimes, LogTimes]:
    def side(seed: int, mean: float) -> LogTimes:
        source = np.random.default_rng(seed)
        level = mean + source.normal(0, 1, (trials, ROWS, 1)) * shift
        noise = source.normal(0, math.hypot(BETWEEN, WITHIN), (trials, ROWS, processes))
        return LogTimes(level + noise, np.full(noise.shape, WITHIN))

    return side(1, 0.0), side(2, math.log1p(change))


def of_gate(trials: int, processes: int, change: float = 0.0, shift: float = 0.0) -> np.ndarray:
    """Which rows fail by the rule of the gate."""
    both = sides(trials, processes, change, shift)
    return verdicts.is_behind_eager(changes.change(*both), MARGINS)


@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_quantiles_are_those_of_student_or_a_little_wider(alpha: float) -> None:
    freedoms = np.array([1, 2, 2.3, 3.7, 8, 15.5, 59, 75.2, 500, 1e9])
    ratios = changes.quantile(freedoms, alpha) / stats.t.ppf(1 - alpha / 2, freedoms)
    assert 1 - 1e-6 <= ratios.min() <= ratios.max() <= 1.02


def test_the_interval_is_welchs() -> None:
    old = LogTimes(np.array([0.0, 0.01, 0.03, 0.02]), np.zeros(4))
    new = LogTimes(np.array([0.05, 0.09, 0.02]), np.zeros(3))
    one = changes.change(old, new)
    expected = stats.ttest_ind(new.values, old.values, equal_var=False)
    interval = expected.confidence_interval()
    assert float(one.value) == pytest.approx(float(new.values.mean() - old.values.mean()))
    assert float(one.freedom) == pytest.approx(expected.df)
    assert float(one.low) == pytest.approx(interval.low, abs=0.08 * float(one.error))
    assert float(one.high) == pytest.approx(interval.high, abs=0.08 * float(one.error))


def test_processes_that_agree_by_chance_keep_the_error_within_them() -> None:
    equal = LogTimes(np.full(5, 0.1), np.full(5, 0.01))
    one = changes.change(equal, equal)
    assert float(one.error) == pytest.approx(0.01 * math.sqrt(2 / 5))
    exact = LogTimes(np.full(5, 0.1), np.zeros(5))
    assert float(changes.change(exact, exact).high) == 0.0


@pytest.mark.parametrize(
    ("processes", "false", "false_when_shifted", "one", "two"),
    [(3, 0.001, 0.045, 0.03, 0.35), (5, 0.001, 0.05, 0.04, 0.84), (10, 0.001, 0.065, 0.04, 0.99)],
)
def test_the_gate_rarely_fails_falsely_and_sees_what_matters(
    processes: int, false: float, false_when_shifted: float, one: float, two: float
) -> None:
    for shift, share in ((0.0, false), (SHIFT, false_when_shifted)):  # of runs with a failed row
        assert of_gate(2000, processes, shift=shift).any(axis=1).mean() <= share
    assert of_gate(200, processes, 0.01).mean() <= one
    assert of_gate(200, processes, 0.02).mean() >= two
    assert of_gate(200, processes, 0.05).mean() >= 0.999


@pytest.mark.parametrize("processes", [3, 5, 10])
def test_intervals_cover_the_true_change(processes: int) -> None:
    one = changes.change(*sides(1000, processes, 0.05))
    covered = (one.low < math.log1p(0.05)) & (one.high > math.log1p(0.05))
    assert 0.945 <= covered.mean() <= 0.975


def works(
    trials: int, processes: int, modes: int, eager: float, mode: float
) -> tuple[LogChange, LogChange, LogChange]:
    """The changes of one row of a work whose modes share an eager baseline."""
    source = np.random.default_rng(3)
    shape = (modes, trials, processes)
    readings = [source.normal(0, LATENCY, shape) for _ in range(2)]
    noises = [source.normal(0, BETWEEN, shape) for _ in range(2)]
    floor = np.zeros(shape[1:])
    eagers = [
        [LogTimes(reading + level, floor) for reading in side_]
        for side_, level in zip(readings, (0.0, math.log1p(eager)), strict=True)
    ]
    share = math.log1p(mode) - math.log1p(eager)
    against = changes.change(LogTimes(noises[0][0], floor), LogTimes(noises[1][0] + share, floor))
    e = changes.mean_change(*eagers)
    return against, e, changes.total(against, e)


def test_eager_read_by_every_mode_sharpens_the_latency() -> None:
    _, _, latency = works(20_000, 5, 10, eager=0.0, mode=0.03)
    assert float(latency.error.mean()) == pytest.approx(0.005, rel=0.05)
    covered = (latency.low < math.log1p(0.03)) & (latency.high > math.log1p(0.03))
    assert 0.94 <= covered.mean() <= 0.965
    _, _, alone = works(20_000, 5, 1, eager=0.0, mode=0.03)
    assert float(alone.error.mean()) == pytest.approx(0.0135, rel=0.05)


def test_a_mode_fails_if_it_lost_to_an_unchanged_eager_and_not_because_eager_gained() -> None:
    against, eager, latency = works(5000, 5, 10, eager=-0.05, mode=0.0)
    behind = verdicts.is_behind_eager(against, MARGINS)
    lost = behind & verdicts.eager_kept_its_pace(eager, MARGINS)
    assert behind.mean() > 0.999
    assert (lost | verdicts.is_slower(latency, MARGINS)).mean() <= 0.001
    against, eager, _ = works(5000, 5, 10, eager=0.0, mode=0.05)
    behind = verdicts.is_behind_eager(against, MARGINS)
    assert (behind & verdicts.eager_kept_its_pace(eager, MARGINS)).mean() > 0.5


def exact(value: float, error: float = 0.001) -> LogChange:
    return LogChange(np.asarray(value), np.asarray(error), np.asarray(50.0))


@pytest.mark.parametrize(
    ("against", "eager", "expected"),  # without an eager the latency alone
    [
        (0.05, None, TimingVerdict.SLOWER),
        (-0.05, None, TimingVerdict.FASTER),
        (0.0, None, TimingVerdict.NO_WORSE),
        (0.0, 0.0, TimingVerdict.NO_WORSE),
        (0.05, 0.0, TimingVerdict.SLOWER),
        (0.015, 0.0, TimingVerdict.LOST),
        (0.05, -0.05, TimingVerdict.EAGER_MAYBE),
        (-0.05, 0.0, TimingVerdict.FASTER),
        (-0.05, 0.05, TimingVerdict.NO_WORSE),  # only eager became slower
        (0.0, 0.05, TimingVerdict.SLOWER),  # with eager
        (0.009, 0.0, TimingVerdict.UNDECIDED),
    ],
)
def test_verdicts(against: float, eager: float | None, expected: str) -> None:
    one = exact(against)
    if eager is None:
        found = verdicts.verdict(None, None, one, MARGINS)
    else:
        own = exact(eager)
        found = verdicts.verdict(one, own, changes.total(one, own), MARGINS)
    assert found == expected


def test_eager_that_changed_against_itself_is_broken() -> None:
    for value in (0.05, -0.05):
        assert verdicts.is_broken(exact(value), MARGINS)
        assert not verdicts.is_broken(exact(value, error=0.1), MARGINS)
    assert not verdicts.is_broken(exact(0.005), MARGINS)


@pytest.mark.parametrize("processes", [3, 5, 10])
def test_the_stated_change_is_shown_in_80_percent_of_comparisons(processes: int) -> None:
    seen = changes.change(*sides(500, processes))
    stated = math.expm1(float(np.median(verdicts.detectable(seen, MARGINS.against_eager))))
    assert 0.7 <= of_gate(500, processes, stated).mean() <= 0.86


def test_the_stated_number_of_replicates_shows_2_percent() -> None:
    margin = MARGINS.against_eager
    one = LogChange(np.asarray(0.0), np.asarray(0.012 * math.sqrt(2 / 3)), np.asarray(4.0))
    count = verdicts.replicates_needed(one, margin, 3, 3)
    for given, enough in ((count, True), (count - 1, False)):
        error, freedom = 0.012 * math.sqrt(2 / given), 2.0 * given - 2
        again = LogChange(np.asarray(0.0), np.asarray(error), np.asarray(freedom))
        assert bool(verdicts.detectable(again, margin) <= math.log(1.02)) is enough
    hopeless = LogChange(np.asarray(0.0), np.asarray(1.0), np.asarray(4.0))
    assert verdicts.replicates_needed(hopeless, margin, 3, 3) is None
    assert verdicts.target(math.log1p(0.05)) == pytest.approx(math.log1p(0.1))
