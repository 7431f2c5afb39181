"""Derived columns of a single row: which rows have values, and the edges of the formulas."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.flags import BEATEN
from modescope.analysis.derive.select import latest
from modescope.analysis.format import cells
from modescope.analysis.load import SHOWN, read
from modescope.analysis.metrics import METRICS, derive
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from tests.helpers.derivations import rows_of_each, studies_of, table_of, values_of_each
from tests.helpers.pass_columns import BOUNDS, GENERATED, memory, profiled
from tests.helpers.paths import REFERENCE
from tests.helpers.studies import cpu_clocks, cuda_clocks, not_measured, record, save


def test_p95_is_read_from_single_calls_and_needs_a_hundred(tmp_path: Path) -> None:
    calls = tuple(n * 1e-6 for n in range(1, 102))  # 1 ... 101 µs: 95 % lie at or below 96
    some = (record(latency_calls_s=calls[:number]) for number in (101, 100, 99))
    expected = [pytest.approx(96e-6), pytest.approx(95.05e-6), None]
    assert values_of_each(tmp_path, "latency_p95_s", some) == expected


def test_rows_without_enough_rounds_or_a_baseline_have_no_verdict(tmp_path: Path) -> None:
    none = {"baseline_mode": None, "baseline_dtype": None, "baseline_latency_rounds_s": None}
    records = [record(budget="smoke"), record(rounds=11), record(**none)]
    smoke, few, alone = rows_of_each(tmp_path, records)
    assert [smoke["speedup"].value, few["speedup"].value] == pytest.approx([1.25, 1.25])
    assert alone["speedup"] is None
    assert alone["latency_s"].value == pytest.approx(357e-6)
    assert (few["speedup"].low, few["latency_s"].high) == (None, None)
    assert (few["verdict"], few["mde"]) == (None, None)
    assert [row["verdict"] for row in (smoke, alone)] == [None, None]
    assert smoke["break_even_calls"] is None


def test_calls_after_which_the_first_call_has_paid_off(tmp_path: Path) -> None:
    planted: list[tuple[str, float, float, float | None, float | None, float | None]] = [
        ("compile", 2.0, 0.002, 1.002, 0.002, 1000.0),  # 1 s more at first, each call 1 ms less
        ("compile", 2.0, 0.002, 0.001, 0.002, 0.0),
        ("compile", 0.5, 0.002, 1.002, 0.002, math.inf),
        ("compile", 1.001, 0.004, 1.002, 0.002, math.inf),  # equivalent: 0.9997 to 1.0023
        ("compile", 1.02, 0.2, 1.002, 0.002, None),  # inconclusive
        ("compile", 2.0, 0.002, None, 0.002, None),
        ("compile", 1.2, 0.002, 0.102, 0.002, 500.0),  # building something always counts
        ("cuda-graph", 1.2, 0.002, 0.022, 0.002, 100.0),
        ("no_grad", 1.2, 0.002, 0.004, 0.002, 0.0),  # 12 calls by one reading, none by another
        ("amp", 2.0, 0.002, 0.100, 0.002, 0.0),  # below the noticeable limit
        ("amp", 2.0, 0.002, 3.9, 2.0, 0.0),  # within twice as long
        ("no_grad", 1.2, 0.002, 0.4, 0.002, None),  # the machine's other work, or the mode's own
        ("no_grad", 1.2, 0.002, 0.002, None, None),
        ("no_grad", 1.001, 0.004, 0.002, 0.002, None),  # equivalent, and costs nothing
        ("no_grad", 0.8, 0.002, 0.4, 0.002, math.inf),  # for any first call
        ("eager", 1.2, 0.002, 0.004, 0.002, None),  # the baseline itself replaces nothing
    ]
    records = (
        record(mode, 1e-3, speedup, spread=spread, first_call_s=own_s, baseline_first_call_s=base_s)
        for mode, speedup, spread, own_s, base_s, _ in planted
    )
    found = values_of_each(tmp_path, "break_even_calls", records)
    assert found == [None if calls is None else pytest.approx(calls) for *_, calls in planted]


def test_a_build_ahead_of_time_is_paid_for_like_a_first_call(tmp_path: Path) -> None:
    first: dict[str, Any] = {"first_call_s": 0.5, "baseline_first_call_s": 0.002}
    built: dict[str, Any] = {"package_export_s": 1.0, "package_build_s": 30.0}
    records = [record("aoti", 1e-3, 2.0, **first, **more) for more in (dict[str, Any](), built)]
    found = values_of_each(tmp_path, "break_even_calls", records)
    assert found == [pytest.approx(498), pytest.approx(31_498)]
    shown = [cells.first_call(row) for row in rows_of_each(tmp_path / "shown", records)]
    assert shown == ["500 ms", "500 ms (built in 31.0 s)"]


def test_a_process_that_saves_the_model_is_paid_for_too(tmp_path: Path) -> None:
    given: dict[str, Any] = {"first_call_s": 0.5, "baseline_first_call_s": 0.002, "fill_s": 30.0}
    modes = {"aot": 30_498, "default": 498}  # another's first call has what it did not find
    records = [record("compile", 1e-3, 2.0, compile_mode=mode, **given) for mode in modes]
    found = values_of_each(tmp_path, "break_even_calls", records)
    assert found == [pytest.approx(calls) for calls in modes.values()]


def test_on_cuda_a_graph_pays_for_its_capture_though_its_baseline_met_the_libraries(
    tmp_path: Path,
) -> None:
    first: dict[str, Any] = {"first_call_s": 0.009, "baseline_first_call_s": 0.040}
    record_of = partial(record, "cuda-graph", 1e-3, 1.2, **first)
    on_cuda = record_of(**cuda_clocks(1e-5, 0.9e-3))
    found = values_of_each(tmp_path, "break_even_calls", [on_cuda, record_of()])
    assert found == [pytest.approx((0.009 - 0.0012) / 0.0002), 0.0]


def test_kept_graphs_pay_after_hundreds_of_calls() -> None:
    rows = as_rows(table_of(str(REFERENCE / "nvidia-h100/bf16")))
    calls = [row["break_even_calls"] for row in rows if row["mode"] == "cuda-graph"]
    assert len(calls) == 2
    assert all(150 < each < 300 for each in calls)


@pytest.mark.parametrize("named", [{}, {"baseline_mode": None, "baseline_dtype": None}])
def test_without_a_baseline_the_latency_is_what_the_clock_read(
    named: dict[str, None], tmp_path: Path
) -> None:
    """The baseline may also have failed, so that it has a name and no time."""
    (row,) = rows_of_each(
        tmp_path, [record("compile", 300e-6, baseline_latency_rounds_s=None, **named)]
    )
    assert row["latency_paired_s"] == row["latency_s"]


def test_latencies_are_paired_within_a_budget(tmp_path: Path) -> None:
    """The baseline took 100 µs in one budget and 200 µs in the other."""
    both = [record("compile", 50e-6, 2.0), record("no_grad", 100e-6, 2.0, budget="smoke")]
    (rows,) = studies_of(tmp_path, [both])
    paired = {row["mode"]: row["latency_paired_s"].value for row in rows}
    assert paired == pytest.approx({"compile": 50e-6, "no_grad": 100e-6})


def _bounded(folder: Path, *changes: dict[str, Any]) -> list[Row]:
    """Rows of 0.25 s whose work has a floor of 0.05 s."""
    records = (record("eager", 0.25, 1.0, **(BOUNDS | columns)) for columns in changes)
    return rows_of_each(folder, records)


def test_the_roofline_fraction_refers_to_work_not_latency(tmp_path: Path) -> None:
    on_cpu = (cpu_clocks(0.25, dispatch_s) for dispatch_s in (0.05, None, 0.26))
    rows = _bounded(tmp_path, *on_cpu, cuda_clocks(0.01, 0.1))
    assert [row["roofline_fraction"] for row in rows] == [
        pytest.approx(0.05 / 0.2, rel=1e-3), None, None, pytest.approx(0.05 / 0.1),
    ]  # fmt: skip


END = 0.01 * 7 / 11  # of the interval of twelve blocks


def test_work_below_its_floor_by_more_than_its_interval_is_flagged(tmp_path: Path) -> None:
    beaten = {
        0.06: False,
        0.05 / (1 + END) * 1.001: False,  # its interval reaches the floor
        0.05 / (1 + END) * 0.999: True,
        0.01: True,
    }
    rows = _bounded(tmp_path, *(cuda_clocks(0.24, device_s) for device_s in beaten))
    assert [list(row["flags"]) == [BEATEN] for row in rows] == list(beaten.values())
    fractions = [0.05 / device_s for device_s in beaten]
    assert [row["roofline_fraction"] for row in rows] == pytest.approx(fractions)


def test_on_a_cpu_dispatch_is_not_compared_with_the_floor(tmp_path: Path) -> None:
    beaten = {None: [], 0.19: [], 0.21: [BEATEN], 0.26: []}
    rows = _bounded(tmp_path, *(cpu_clocks(0.25, dispatch_s) for dispatch_s in beaten))
    assert [list(row["flags"]) for row in rows] == list(beaten.values())


LISTS = ("flags", "flags_touch")


def test_only_ok_rows_have_derived_values(tmp_path: Path) -> None:
    passes = profiled(9, 1e-4) | memory(1000, 10) | BOUNDS | GENERATED | cpu_clocks(357e-6, 50e-6)
    statuses = ("failed", "wrong_result", "oom", "timeout", "crashed")
    lost = (record(status=status, reason="it went wrong", **passes) for status in statuses)
    for row in rows_of_each(tmp_path, lost):
        known = {metric.name for metric in METRICS if row.get(metric.name) is not None}
        assert known == {*LISTS}, row["status"]


def test_deriving_leaves_stored_columns_unchanged(tmp_path: Path) -> None:
    study = save([record(), not_measured("amp", "skipped", "why")], tmp_path)
    runs = latest(read(study).table)
    computed = {metric.name for metric in METRICS}
    stored = [name for name in runs if name in SHOWN and name not in computed]
    before = runs[stored].copy(deep=True)
    rows = derive(runs)
    pd.testing.assert_frame_equal(rows[before.columns], before)
    assert [list(values) for name in LISTS for values in rows[name]] == [[]] * 4
