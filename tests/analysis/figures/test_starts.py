"""Cold starts: bars cut by phase, their whiskers, and the table of what is undecided."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from modescope.analysis.figures.starts import STARTS
from modescope.bench.records.results import Record
from tests.helpers.drawings import bars, names, only_axes, rows_of
from tests.helpers.recommendations import control
from tests.helpers.studies import record

PHASES = {"import": 2.0, "probe": 1.0, "run": 0.5}


def start(cache: str, middle_s: float, mode: str = "compile", **columns: Any) -> Record:
    """Three processes of this time, in the middle; the mean of the phases is PHASES."""
    phases = [{name: s * part for name, s in PHASES.items()} for part in (0.5, 0.6, 1.9)]
    given: dict[str, Any] = {
        "starts_s": (middle_s - 0.4, middle_s, middle_s + 0.4),
        "baseline_starts_s": (1.0, 1.0, 1.0),
        "start_phases_s": json.dumps(phases),
        "compile_cache": cache,
    }
    return record(mode, **(given | columns))


def test_a_bar_is_a_start_cut_by_phase_with_the_rest_at_its_end(tmp_path: Path) -> None:
    eager = control(starts_s=(1.0,) * 3, baseline_starts_s=(1.0,) * 3, start_phases_s="[{}]")
    rows = rows_of(tmp_path, start("cold", 10.0), eager, start("warm", 4.0))
    axes = only_axes(STARTS.draw(rows))
    assert names(axes) == ["eager", "compile, warm cache", "compile, cold cache"]
    drawn = bars(axes)
    pace = (3.6 * 4.0 * 4.4) ** (1 / 3) / 4.0  # the mean of ratios is geometric
    assert drawn["compile, warm cache"] == [
        pytest.approx((begin * pace, length * pace), abs=0.01)
        for begin, length in ((0, 2), (2, 1), (3, 0.5), (3.5, 0.5))
    ]
    assert drawn["compile, cold cache"][-1] == pytest.approx((3.5, 6.5), rel=1e-2)
    assert drawn["eager"] == [(0, 1)]


def test_the_line_is_the_interval_of_the_whole(tmp_path: Path) -> None:
    axes = only_axes(STARTS.draw(rows_of(tmp_path, start("warm", 4.0))))
    (line,) = (each for each in axes.lines if isinstance(each, Line2D))
    logs = [math.log(value) for value in (3.6, 4.0, 4.4)]
    reach = stdev(logs) * 4.302653 / 3**0.5
    interval = [math.exp(fmean(logs) - reach), math.exp(fmean(logs) + reach)]
    assert np.asarray(line.get_xdata()).tolist() == pytest.approx(interval)
    assert axes.get_xlim()[1] > interval[1]


def test_bars_are_at_one_pace(tmp_path: Path) -> None:
    """Beside the first row the machine was half as fast, so that its starts are the shorter."""
    slow = start("warm", 8.0, baseline_starts_s=(2.0, 2.0, 2.0))
    fast = start("precompiled", 4.5, baseline_starts_s=(1.0, 1.0, 1.0))
    axes = only_axes(STARTS.draw(rows_of(tmp_path, slow, fast)))
    assert names(axes) == ["compile, warm cache", "compile, precompiled"]
    drawn = {name: pieces[-1] for name, pieces in bars(axes).items()}
    assert sum(drawn["compile, warm cache"]) == pytest.approx(4 * 1.5, rel=0.01)
    assert sum(drawn["compile, precompiled"]) == pytest.approx(4.5 * 1.5, rel=0.01)


def test_without_starts_there_is_no_figure(tmp_path: Path) -> None:
    assert STARTS.draw(rows_of(tmp_path, control(), record("compile"))) is None


def test_the_table_says_which_starts_overlap(tmp_path: Path) -> None:
    records = [start("cold", 12.0), start("warm", 4.0), start("precompiled", 3.9)]
    table = STARTS.table(rows_of(tmp_path, *records))
    place = table.titles.index("undecided against")
    assert {line[0]: line[place] for line in table.rows} == {
        "compile, precompiled": "compile, warm cache",
        "compile, warm cache": "compile, precompiled",
        "compile, cold cache": "none",
    }
