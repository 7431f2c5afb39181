"""Steps in series, counted on simulated ones: chance makes few, planted ones are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modescope.analysis import trend


def test_the_best_split_by_hand() -> None:
    found = trend.best_split(np.array([0.0, 2.0, 10.0, 12.0, 11.0]))
    assert float(found.before) == 2
    assert float(found.change.value) == pytest.approx(10.0)
    variance = (1 + 1 + 1 + 1 + 0) / 3
    assert float(found.change.error) == pytest.approx(math.sqrt(variance * (1 / 2 + 1 / 3)))
    assert float(found.change.freedom) == 3


def test_a_single_odd_set_is_no_step() -> None:
    found = trend.best_split(np.array([0.0, 0.1, 0.0, 0.1, 0.0, 9.0]))
    assert 2 <= float(found.before) <= 4
    assert float(found.strength) < trend.threshold(6, rows=1)


def test_sets_that_agree_by_chance_keep_the_error_within_them() -> None:
    series = np.array([0.0, 0.0, 1.0, 1.0])
    assert float(trend.best_split(series).strength) == math.inf
    assert float(trend.best_split(series, floor=0.25).change.error) == pytest.approx(0.5)
    assert float(trend.best_split(np.zeros(5)).strength) == 0


@pytest.mark.parametrize(
    ("count", "rows", "share"), [(4, 1, 0.05), (12, 40, 0.05), (12, 1, 0.04), (52, 1, 0.02)]
)
def test_chance_makes_a_step_in_at_most_5_percent_of_reports(
    count: int, rows: int, share: float
) -> None:
    series = np.random.default_rng(2).normal(size=(40_000 // rows, rows, count))
    steps = trend.best_split(series).strength > trend.threshold(count, rows)
    tolerance = 4 * math.sqrt(share / len(steps))
    assert steps.any(axis=1).mean() == pytest.approx(share, abs=tolerance)


@pytest.mark.parametrize(("count", "least"), [(8, 0.75), (12, 0.99)])
def test_a_step_of_2_percent_is_found_at_its_place(count: int, least: float) -> None:
    series = np.random.default_rng(3).normal(0, 0.003, (4000, count))
    series[:, count // 2 :] += math.log(1.02)
    found = trend.best_split(series)
    assert (found.strength > trend.threshold(count, rows=40)).mean() >= least
    assert (found.before == count // 2).mean() > 0.98
