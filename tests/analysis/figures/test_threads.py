"""The gain of further threads: points have the planted times, and the caption names intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.lines import Line2D

from modescope.analysis.derive.series import ThreadSeries, thread_series
from modescope.analysis.figures import threads
from modescope.bench.records.results import Record
from tests.helpers.drawings import points, rows_of
from tests.helpers.studies import with_threads


@pytest.fixture
def planted(tmp_path: Path) -> ThreadSeries:
    records = [
        *(with_threads(n, 400e-6 / n, "compile") for n in (1, 2, 4)),
        *(with_threads(n, 300e-6, "eager") for n in (1, 2)),
    ]
    (found,) = thread_series(rows_of(tmp_path, *records))
    return found


def _at(line: Line2D) -> tuple[list[float], list[float]]:
    """The places of its points."""
    x, y = (np.asarray(values).tolist() for values in (line.get_xdata(), line.get_ydata()))
    return x, y


def test_latencies_and_gains_are_drawn_over_the_threads(planted: ThreadSeries) -> None:
    times, factors = threads.draw(planted).axes
    eager, compiled = points(times)
    assert _at(compiled)[0] == [1, 2, 4]
    assert _at(compiled)[1] == pytest.approx([400e-6, 200e-6, 100e-6], rel=0.01)
    assert _at(eager)[0] == [1, 2]
    _, gained = points(factors)
    assert _at(gained)[1] == pytest.approx([1, 2, 4], rel=0.01)
    (ideal,) = [line for line in factors.lines if line.get_linestyle() == ":"]
    assert _at(ideal)[1] == [1, 2, 4]


def test_the_table_has_latency_and_gain_of_each_mode(planted: ThreadSeries) -> None:
    table = threads.table(planted)
    assert table.titles == ("mode", "of a call", "1 thread", "2 threads", "4 threads")
    assert [line[:2] for line in table.rows] == [
        ("eager", "latency [95 %]"), ("eager", "gain [95 %]"),
        ("compile", "latency [95 %]"), ("compile", "gain [95 %]"),
    ]  # fmt: skip
    assert table.rows[3][2] == table.rows[1][4] == "–"
    assert table.rows[2][2].startswith("400 µs [")


def _series(folder: Path, *records: Record) -> ThreadSeries:
    (found,) = thread_series(rows_of(folder, *records))
    return found


def test_a_mode_without_the_fewest_threads_has_no_gain(tmp_path: Path) -> None:
    found = _series(
        tmp_path,
        *(with_threads(n, 400e-6 / n, "compile") for n in (2, 4)),
        *(with_threads(n, 300e-6 / n, "eager") for n in (1, 2)),
    )
    _, factors = threads.draw(found).axes
    assert factors.get_title(loc="left") == "Gain over 1 thread"
    (eager,) = points(factors)
    assert _at(eager)[0] == [1, 2]
    assert threads.table(found).rows[3][2:] == ("–", "–", "–")
    assert "compile unknown with 4 instead of 1 thread" in threads.caption(found)


def test_beside_other_programs_there_are_latencies_alone(tmp_path: Path) -> None:
    busy = (with_threads(n, 400e-6 / n, flags=("contended",)) for n in (1, 2))
    found = _series(tmp_path, *busy)
    (times,) = threads.draw(found).axes
    assert [_at(line)[0] for line in points(times)] == [[1, 2]]
    caption = threads.caption(found)
    assert "compile unknown with 2 instead of 1 thread" in caption
    assert "No gain is stated of rows beside which other programs ran" in caption
