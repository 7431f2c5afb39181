"""The gain of further threads: at equal pace, over the fewest, from trusted rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive import series
from modescope.bench.records.results import Record
from tests.helpers.drawings import rows_of
from tests.helpers.studies import PACE_S, with_threads


def gains(folder: Path, *records: Record) -> dict[int, float]:
    rows = rows_of(folder, *records).set_index("threads")
    return {int(str(count)): float(gain) for count, gain in rows["threads_gain"].items()}


def test_the_gain_is_over_the_fewest_threads(tmp_path: Path) -> None:
    found = gains(
        tmp_path, with_threads(4, 100e-6), with_threads(2, 200e-6), with_threads(8, 50e-6)
    )
    assert math.isnan(found[2])
    assert found[4] == pytest.approx(2.0, rel=0.01)
    assert found[8] == pytest.approx(4.0, rel=0.01)


def test_its_interval_is_the_worst_case_of_both(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, with_threads(1, 200e-6), with_threads(2, 100e-6)).set_index("threads")
    one, two = rows.loc[1], rows.loc[2]
    low = one["latency_at_full_pace_ci_low_s"] / two["latency_at_full_pace_ci_high_s"]
    high = one["latency_at_full_pace_ci_high_s"] / two["latency_at_full_pace_ci_low_s"]
    assert two["threads_gain_ci_low"] == pytest.approx(low)
    assert two["threads_gain_ci_high"] == pytest.approx(high)
    assert low < two["threads_gain"] < high


def test_a_process_that_ran_at_half_the_pace_gains_nothing_by_that(tmp_path: Path) -> None:
    """Two processes of the same time at full pace, the first of which the machine slowed down."""
    slow = with_threads(1, 200e-6, pace_rounds_s=(2 * PACE_S,) * 40)
    assert gains(tmp_path / "paced", slow, with_threads(2, 100e-6))[2] == pytest.approx(1.0, 0.01)
    unknown = with_threads(1, 200e-6, pace_rounds_s=None)
    as_measured = gains(tmp_path / "unknown", unknown, with_threads(2, 100e-6))
    assert as_measured[2] == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    "other",
    [
        {"mode": "eager"}, {"dtype": "bf16"}, {"compile_cache": "warm"}, {"shape": '{"batch":8}'},
        {"environment_id": "env-2"}, {"baseline_mode": "no_grad"}, {"in_effect": False},
        {"budget": "smoke"}, {"status": "wrong_result", "reason": "why"}, {"rounds": 5},
    ],
    ids=str,
)  # fmt: skip
def test_another_case_or_an_untrusted_row_is_no_reference(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    found = gains(tmp_path, with_threads(1, 200e-6, **other), with_threads(2, 100e-6))
    assert math.isnan(found[2])


def test_a_series_has_the_modes_with_several_numbers_of_threads(tmp_path: Path) -> None:
    records = [with_threads(n, 1e-4 / n, mode) for mode in ("eager", "compile") for n in (2, 1)]
    alone = with_threads(1, 1e-4, "amp", dtype="fp32")
    (found,) = series.thread_series(rows_of(tmp_path, *records, alone))
    assert {line.name: line.sizes for line in found.lines} == {"compile": (1, 2), "eager": (1, 2)}
    assert found.counts == [1, 2]
    assert series.thread_series(rows_of(tmp_path / "alone", alone)) == []


@pytest.mark.parametrize("beside", [1, 2])
def test_beside_other_programs_there_is_no_gain(tmp_path: Path, beside: int) -> None:
    found = gains(tmp_path, *(
        with_threads(n, 200e-6 / n, flags=("contended",) if n == beside else ()) for n in (1, 2)
    ))  # fmt: skip
    assert math.isnan(found[2])


def _gains(found: series.ThreadSeries, name: str) -> dict[int, float | None]:
    (line,) = (each for each in found.lines if each.name == name)
    return {row["threads"]: None if one is None else one.value for row, one in found.gains(line)}


def test_gains_of_a_series_are_over_its_fewest_threads(tmp_path: Path) -> None:
    records = [
        *(with_threads(n, 4e-4 / n, "compile") for n in (2, 4)),
        *(with_threads(n, 4e-4, "eager") for n in (1, 2)),
    ]
    rows = rows_of(tmp_path, *records)
    (found,) = series.thread_series(rows)
    assert _gains(found, "compile") == {2: None, 4: None}
    assert _gains(found, "eager") == {2: pytest.approx(1.0, rel=0.01)}
    of_column = rows[(rows["mode"] == "compile") & (rows["threads"] == 4)]["threads_gain"].item()
    assert of_column == pytest.approx(2.0, rel=0.01)


def test_a_series_has_one_clock(tmp_path: Path) -> None:
    """Without the pace of one row all are compared as measured, as their latencies are shown."""
    slow = with_threads(1, 200e-6, "compile", pace_rounds_s=(2 * PACE_S,) * 40)
    compiled = [slow, with_threads(2, 100e-6, "compile")]
    eager = [with_threads(1, 4e-4, "eager"), with_threads(2, 4e-4, "eager", pace_rounds_s=None)]
    (paced,) = series.thread_series(rows_of(tmp_path / "paced", *compiled))
    assert paced.clock == "latency_at_full_pace"
    assert _gains(paced, "compile") == {2: pytest.approx(1.0, rel=0.01)}
    (mixed,) = series.thread_series(rows_of(tmp_path / "mixed", *compiled, *eager))
    assert mixed.clock == "latency"
    assert _gains(mixed, "compile") == {2: pytest.approx(2.0, rel=0.01)}
