"""The gain of further threads: points have the planted times, and the caption names intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.figures import threads
from modescope.analysis.metrics.thread_gain import ThreadSeries, series
from tests.analysis.metrics.test_thread_gain import with_threads
from tests.helpers.drawings import points, rows_of


@pytest.fixture
def planted(tmp_path: Path) -> ThreadSeries:
    records = [
        *(with_threads(n, 400e-6 / n, "compile") for n in (1, 2, 4)),
        *(with_threads(n, 300e-6, "eager") for n in (1, 2)),
    ]
    (found,) = series(rows_of(tmp_path, *records))
    return found


def test_latencies_and_gains_are_drawn_over_the_threads(planted: ThreadSeries) -> None:
    times, factors = threads.draw(planted).axes
    compiled, eager = points(times)
    assert list(compiled.get_xdata()) == [1, 2, 4]
    assert list(compiled.get_ydata()) == pytest.approx([400e-6, 200e-6, 100e-6], rel=0.01)
    assert list(eager.get_xdata()) == [1, 2]
    gained, _ = points(factors)
    assert list(gained.get_ydata()) == pytest.approx([1, 2, 4], rel=0.01)
    (ideal,) = [line for line in factors.lines if line.get_linestyle() == ":"]
    assert list(ideal.get_ydata()) == [1, 2, 4]


def test_the_caption_names_each_gain_and_where_none_is_shown(planted: ThreadSeries) -> None:
    text = threads.caption(planted)
    assert text.startswith("Gain of further threads: compile 2.00× [")
    assert "] with 2 instead of 1 thread; compile 4.00× [" in text
    assert "eager 1.00" in text
    assert "(no gain shown) with 2 instead of 1 thread." in text
    assert text.count("no gain shown") == 1


def test_the_table_has_latency_and_gain_of_each_mode(planted: ThreadSeries) -> None:
    table = threads.table(planted)
    assert table.titles == ("mode", "of a call", "1 thread", "2 threads", "4 threads")
    assert [line[:2] for line in table.rows] == [
        ("compile", "latency [95 %]"), ("compile", "gain [95 %]"),
        ("eager", "latency [95 %]"), ("eager", "gain [95 %]"),
    ]  # fmt: skip
    assert table.rows[1][2] == table.rows[3][4] == "–"
    assert table.rows[0][2].startswith("400 µs [")
