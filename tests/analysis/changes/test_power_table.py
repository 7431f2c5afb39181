"""The table of replicates in docs/in-ci.md is what the statistics say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from modescope.analysis.changes import power, welch
from modescope.analysis.changes.welch import Change, Side
from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs" / "in-ci.md").read_text(encoding="utf-8")
MARGIN = welch.log_margin(0.01)
SPREADS = (0.002, 0.004, 0.008, 0.016)

ROWS = {
    int(count): [float(cell.removesuffix(" %")) / 100 for cell in cells.split(" | ")]
    for count, cells in re.findall(r"^\| (\d+) \| ((?:[\d.]+ %(?: \| )?)+) \|$", PAGE, flags=re.M)
}
"""Replicates -> the change for each spread."""


def detectable(replicates: int, spread: float) -> float:
    change = Change(
        np.asarray(0.0),
        np.asarray(spread * (2 / replicates) ** 0.5),
        np.asarray(2 * (replicates - 1)),
    )
    return float(np.expm1(power.detectable(change, MARGIN)))


def test_the_table_has_all_its_rows() -> None:
    assert list(ROWS) == [3, 5, 10, 20]
    assert all(len(cells) == len(SPREADS) for cells in ROWS.values())


@pytest.mark.parametrize("replicates", ROWS)
def test_the_changes_are_computed(replicates: int) -> None:
    for spread, shown in zip(SPREADS, ROWS[replicates], strict=True):
        assert detectable(replicates, spread) == pytest.approx(shown, abs=0.0005)


@pytest.mark.parametrize(("replicates", "spread"), [(3, 0.004), (5, 0.008), (20, 0.016)])
def test_such_changes_are_found_in_80_percent_of_simulated_comparisons(
    replicates: int, spread: float
) -> None:
    source = np.random.default_rng(1)
    shape = (20_000, replicates)
    change = np.log1p(detectable(replicates, spread))
    old, new = (
        Side(source.normal(level, spread, shape), np.zeros(shape)) for level in (0.0, change)
    )
    found = welch.change(old, new).low > MARGIN
    assert found.mean() == pytest.approx(0.8, abs=0.03)
