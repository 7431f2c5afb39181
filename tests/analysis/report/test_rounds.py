"""Strips of the ratios of rounds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.report import report, rounds
from tests.helpers.studies import not_measured, record, save


def heights(dots: str) -> list[float]:
    return [float(height) for height in re.findall(r"M\d+ (-?[\d.]+)h0", dots)]


def test_a_strip_has_a_dot_per_round_higher_where_the_mode_is_faster() -> None:
    found = rounds.strip(np.array([1.0, 2.0, 4.0]))
    low, middle, high = heights(found.dots)
    assert low == found.one
    assert 0 < high < middle < low < rounds.HIGH
    assert middle - high == pytest.approx(low - middle, abs=0.2)  # logarithmic
    assert re.findall(r"[\d.]+×", found.text) == ["1.00×", "4.00×", "1.50×", "3.00×"]
    assert rounds.strip(np.array([2.0, 2.0])).one is None
    assert len({*heights(rounds.strip(np.array([2.0, 2.0])).dots)}) == 1


def test_each_row_whose_rounds_are_stored_has_its_strip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {"baseline_latency_rounds_s": None, "case_ran_first": None, "baseline_mode": None}
    made = [record(rounds=40), record("no_grad", **alone), not_measured("amp", "oom", "memory")]
    folder = save(made, tmp_path)
    found = rounds.strips(folder, [one.attempt.run_id for one in made])
    assert {name: len(heights(one.dots)) for name, one in found.items()} == {
        made[0].attempt.run_id: 40
    }
    page = report.write(folder).read_text()
    assert page.count('<svg class="strip"') == 1
    monkeypatch.setattr(rounds, "MOST_STRIPS", 2)
    assert rounds.strips(folder, [one.attempt.run_id for one in made]) == {}
