"""Flags about the speedup are rare without a disturbance, and with one they are deserved.

All rows are measured on the simulated device, so their true speedup is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import scipy.stats

from modescope.analysis.derive.flags import FLAGS, Figure
from modescope.bench.stats.diagnostics import DIAGNOSTICS
from tests.helpers.simulated_rows import DISTURBED, UNDISTURBED, SimulatedRow, rows

pytestmark = pytest.mark.full

COUNT = 150  # rows of each kind
ENOUGH = 20  # rows with a flag, to say how often they miss the truth
ABOUT_THE_SPEEDUP = [flag for flag in DIAGNOSTICS if FLAGS[flag].touches is Figure.SPEEDUP]
ABOUT_TIMES = [flag for flag in DIAGNOSTICS if flag not in ABOUT_THE_SPEEDUP]


def _misses(measured: Sequence[SimulatedRow]) -> int:
    """In how many rows the interval misses the planted speedup."""
    return sum(not row.covers for row in measured)


@pytest.mark.parametrize("name", UNDISTURBED)
def test_without_a_disturbance_one_row_in_ten_has_a_remark_at_most(name: str) -> None:
    measured = rows(UNDISTURBED[name], COUNT)
    assert sum(bool(row.remarks) for row in measured) <= 0.1 * COUNT
    assert _misses(measured) <= 0.1 * COUNT


@pytest.mark.parametrize("flag", ABOUT_THE_SPEEDUP)
def test_a_row_with_a_remark_misses_the_truth_more_often(flag: str) -> None:
    """Than a row without any, under each disturbance that raises the flag."""
    raised_by = []
    for name, draw in DISTURBED.items():
        measured = rows(draw, COUNT)
        flagged = [row for row in measured if flag in row.remarks]
        others = [row for row in measured if not row.remarks]
        if len(flagged) < ENOUGH:
            continue
        raised_by.append(name)
        counts = [(_misses(some), len(some) - _misses(some)) for some in (flagged, others)]
        assert scipy.stats.fisher_exact(counts, alternative="greater").pvalue < 0.01, name
    assert raised_by


@pytest.mark.parametrize("flag", ABOUT_TIMES)
def test_a_flag_about_times_says_nothing_against_the_speedup(flag: str) -> None:
    every = [row for draw in DISTURBED.values() for row in rows(draw, COUNT)]
    flagged = [row for row in every if flag in row.flags and not row.remarks]
    assert len(flagged) >= ENOUGH
    assert _misses(flagged) <= 0.1 * len(flagged)
