"""Derived columns of a single row, and latencies that are paired within their group."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.format import cells
from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.causes import rows_of
from tests.helpers.derivations import rows_of_each, values_of_each
from tests.helpers.studies import cpu_clocks, record


def test_latency_and_its_order_statistic_interval(tmp_path: Path) -> None:
    # 12 rounds of 1 ... 12 ms: the median is 6.5 ms, the 95 % interval [x(3), x(10)]
    times = tuple(n * 1e-3 for n in (7, 1, 12, 3, 9, 5, 11, 2, 8, 4, 10, 6))
    one = record(latency_rounds_s=times, baseline_latency_rounds_s=times)
    (row,) = rows_of_each(tmp_path, [one])
    assert row["latency_s"] == pytest.approx(6.5e-3)
    assert row["latency_ci_low_s"] == pytest.approx(3e-3)
    assert row["latency_ci_high_s"] == pytest.approx(10e-3)
    assert row["rounds"] == 12


def test_speedup_is_paired_by_round(tmp_path: Path) -> None:
    # Every round ran at another speed; the case took half the baseline's time in each of them.
    case = tuple(n * 1e-3 for n in range(1, 13))
    baseline = tuple(2 * time for time in case)
    one = record(latency_rounds_s=case, baseline_latency_rounds_s=baseline)
    (row,) = rows_of_each(tmp_path, [one])
    assert [row[f"speedup{end}"] for end in ("", "_ci_low", "_ci_high")] == pytest.approx([2] * 3)
    assert row["verdict"] == "faster"
    assert row["baseline_latency_s"] == pytest.approx(13e-3)
    assert row["mde"] == pytest.approx(0)


def test_p95_is_read_from_single_calls_and_needs_a_hundred(tmp_path: Path) -> None:
    calls = tuple(n * 1e-6 for n in range(1, 102))  # 1 ... 101 µs: 95 % lie at or below 96
    some = (record(latency_calls_s=each) for each in (calls, calls[:99]))
    assert values_of_each(tmp_path, "latency_p95_s", some) == [pytest.approx(96e-6), None]


def test_rows_without_enough_rounds_or_a_baseline_have_no_verdict(tmp_path: Path) -> None:
    none = {"baseline_mode": None, "baseline_dtype": None, "baseline_latency_rounds_s": None}
    records = [record(budget="smoke"), record(rounds=11), record(**none)]
    smoke, few, alone = rows_of_each(tmp_path, records)
    assert [smoke["speedup"], few["speedup"]] == pytest.approx([1.25, 1.25])
    assert alone["speedup"] is None
    assert alone["latency_s"] == pytest.approx(357e-6)
    unknown = ("speedup_ci_low", "latency_ci_high_s", "verdict", "mde")
    assert [few[name] for name in unknown] == [None] * 4
    assert [row["verdict"] for row in (smoke, alone)] == [None, None]
    assert smoke["break_even_calls"] is None


BREAK_EVEN: list[tuple[Record, float | None]] = [
    (record(latency_s=1e-3, speedup=speedup, spread=spread, first_call_s=first_call_s), expected)
    for speedup, spread, first_call_s, expected in (
        (2.0, 0.002, 1.002, 1000.0),  # the first call takes 1 s more, each call 1 ms less
        (2.0, 0.002, 0.001, 0.0),  # first call cheaper than the baseline's 0.002 s
        (0.5, 0.002, 1.002, math.inf),
        (1.0, 0.002, 1.002, math.inf),  # equivalent, and 1 within the interval
        (1.001, 0.004, 1.002, math.inf),  # as well: 0.9997 to 1.0023
        (1.02, 0.2, 1.002, None),  # inconclusive
        (2.0, 0.002, None, None),
    )
]
OF_MODES: list[tuple[Record, float | None]] = [
    (
        record(mode, 1e-3, speedup, spread=0.002, first_call_s=own_s, baseline_first_call_s=base_s),
        expected,
    )
    for mode, speedup, own_s, base_s, expected in (
        ("no_grad", 1.2, 0.004, 0.002, 0.0),  # 12 calls by one reading, none by another
        ("inference_mode", 1.2, 0.001, 0.002, 0.0),
        ("amp", 2.0, 0.100, 0.002, 0.0),  # below the noticeable limit
        ("amp", 2.0, 3.9, 2.0, 0.0),  # within twice as long
        ("no_grad", 1.2, 0.4, 0.002, None),  # the machine's other work, or the mode's own
        ("no_grad", 1.2, None, 0.002, None),
        ("no_grad", 1.2, 0.002, None, None),
        ("no_grad", 0.8, 0.4, 0.002, math.inf),  # for any first call
        ("no_grad", 0.8, None, None, math.inf),
        ("eager", 1.2, 0.004, 0.002, None),  # the baseline itself replaces nothing
        ("compile", 1.2, 0.102, 0.002, 500.0),  # building something always counts
        ("cuda-graph", 1.2, 0.022, 0.002, 100.0),
    )
]


@pytest.mark.parametrize("planted", [BREAK_EVEN, OF_MODES], ids=["speedups", "modes"])
def test_calls_after_which_the_first_call_has_paid_off(
    tmp_path: Path, planted: list[tuple[Record, float | None]]
) -> None:
    found = values_of_each(tmp_path, "break_even_calls", (one for one, _ in planted))
    assert found == [None if calls is None else pytest.approx(calls) for _, calls in planted]


def test_a_mode_that_is_not_in_effect_does_not_pay_or_fail_to_pay(tmp_path: Path) -> None:
    pays: dict[str, Any] = {"latency_s": 1e-3, "spread": 0.002, "first_call_s": 1.002}
    rows = rows_of_each(
        tmp_path,
        (
            record(speedup=speedup, in_effect=in_effect, **pays)
            for speedup in (2.0, 0.5)
            for in_effect in (True, False)
        ),
    )
    assert list(map(cells.break_even, rows)) == ["1,000", "–", "never", "–"]


def test_bytes_saved_are_bytes_of_eager_less_bytes_of_compiled_code(tmp_path: Path) -> None:
    moved = ((300, 1000), (1200, 1000), (None, 1000), (300, None))
    records = (record(bytes_accessed=one, eager_bytes=eager) for one, eager in moved)
    assert values_of_each(tmp_path, "bytes_saved", records) == [700, -200, None, None]


EAGER_S, DISPATCH_S = 200e-6, 100e-6
PROCESSES = {  # mode: its speedup, its dispatch ÷ eager's, the pace of its process
    "eager": (1.0, 1.0, 1.0),
    "no_grad": (1.1, 0.9, 1.6),
    "inference_mode": (1.2, 0.8, 1.3),
}


def _records() -> list[Record]:
    return [
        record(
            mode, pace * EAGER_S / speedup, speedup,
            **cpu_clocks(pace * EAGER_S / speedup, pace * DISPATCH_S * dispatch),
        )
        for mode, (speedup, dispatch, pace) in PROCESSES.items()
    ]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """Each process ran at another pace: what its clocks read contradicts the pairs."""
    found = rows_of(_records(), tmp_path)
    for clock in ("latency_s", "dispatch_s"):
        eager, *others = (row[clock] for row in found)
        assert eager < min(others)
    return found


@pytest.mark.parametrize("clock", ["latency", "dispatch"])
def test_paired_clocks_are_in_the_order_of_the_pairs(rows: list[Row], clock: str) -> None:
    eager, no_grad, inference_mode = (row[f"{clock}_paired_s"] for row in rows)
    assert eager > no_grad > inference_mode


def test_a_latency_is_the_median_baseline_of_the_group_over_the_speedup(rows: list[Row]) -> None:
    for row, (speedup, dispatch, _) in zip(rows, PROCESSES.values(), strict=True):
        paired_s = 1.3 * EAGER_S / speedup  # 1.3: the median of the paces
        assert row["latency_paired_s"] == pytest.approx(paired_s, rel=0.01)
        assert row["latency_paired_ci_low_s"] < row["latency_paired_s"]
        assert row["latency_paired_ci_high_s"] > row["latency_paired_s"]
        expected_s = 1.3 * DISPATCH_S * dispatch
        assert row["dispatch_paired_s"] == pytest.approx(expected_s, rel=0.01)


@pytest.mark.parametrize("group", [{"model": "mlp"}, {"budget": "thorough"}], ids=str)
def test_other_work_has_a_baseline_of_its_own(tmp_path: Path, group: dict[str, Any]) -> None:
    other = record("compile", 1e-3, 2.0, **group)
    *_, found = rows_of([*_records(), other], tmp_path)
    assert found["latency_paired_s"] == pytest.approx(1e-3, rel=0.01)


def test_without_a_baseline_the_latency_is_what_the_clock_read(tmp_path: Path) -> None:
    none = {"baseline_mode": None, "baseline_dtype": None, "baseline_latency_rounds_s": None}
    (row,) = rows_of_each(tmp_path, [record("compile", 300e-6, **none)])
    assert row["latency_paired_s"] == row["latency_s"]
    assert row["latency_paired_ci_low_s"] == row["latency_ci_low_s"]
