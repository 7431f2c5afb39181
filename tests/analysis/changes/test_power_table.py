"""The table of replicates in docs/in-ci.md: 80 % of simulated comparisons find such changes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from modescope.analysis.changes import welch
from modescope.analysis.changes.welch import Side
from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs" / "in-ci.md").read_text(encoding="utf-8")
MARGIN = welch.log_margin(0.01)
SPREADS = (0.002, 0.004, 0.008, 0.016)

ROWS = {
    int(count): [float(cell.removesuffix(" %")) / 100 for cell in cells.split(" | ")]
    for count, cells in re.findall(r"^\| (\d+) \| ((?:[\d.]+ %(?: \| )?)+) \|$", PAGE, flags=re.M)
}
"""Replicates -> the change for each spread."""


def test_the_table_has_all_its_rows() -> None:
    assert list(ROWS) == [3, 5, 10, 20]
    assert all(len(cells) == len(SPREADS) for cells in ROWS.values())


@pytest.mark.parametrize("replicates", ROWS)
def test_such_changes_are_found_in_80_percent_of_comparisons(replicates: int) -> None:
    source = np.random.default_rng(replicates)
    shape = (20_000, replicates)
    old, new = (Side(source.normal(0, 1, shape), np.zeros(shape)) for _ in range(2))
    one = welch.change(old, new)
    for spread, shown in zip(SPREADS, ROWS[replicates], strict=True):
        needed = MARGIN - spread * one.low  # of each comparison: the least change that it finds
        assert np.expm1(np.quantile(needed, 0.8)) == pytest.approx(shown, abs=0.001)
