"""Derived columns of a single row, and latencies that are paired within their group."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from modescope.bench.records.results import Record
from tests.helpers.derivations import rows_of_each, values_of_each
from tests.helpers.studies import record


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


def test_without_a_baseline_the_latency_is_what_the_clock_read(tmp_path: Path) -> None:
    none = {"baseline_mode": None, "baseline_dtype": None, "baseline_latency_rounds_s": None}
    (row,) = rows_of_each(tmp_path, [record("compile", 300e-6, **none)])
    assert row["latency_paired_s"] == row["latency_s"]
    assert row["latency_paired_ci_low_s"] == row["latency_ci_low_s"]
