"""Profile and clocks: when they disagree, columns of both, compiled calls, heaviest kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive import profile
from modescope.analysis.derive.profile import DOUBTS, compiled_call, heaviest
from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.derivations import rows_of_each, studies_of
from tests.helpers.pass_columns import profiled
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record

DISAGREES = "split_disagrees"


def _rows(folder: Path, *changes: dict[str, Any]) -> list[Row]:
    return rows_of_each(folder, (record("eager", 1e-4, 1.0, **columns) for columns in changes))


def _combined(folder: Path, *processes: Record) -> Row:
    ((row,),) = studies_of(folder, [processes])
    return row


def test_a_work_bound_call_is_checked_against_its_kernels(tmp_path: Path) -> None:
    planted: list[tuple[float | None, float | None, bool]] = [
        (10e-6, 90e-6, False),
        (10e-6, 103e-6, False),  # 14 % more than 90
        (10e-6, 104.5e-6, True),  # 16 % more
        (10e-6, 77e-6, False),
        (10e-6, 75.5e-6, True),
        (16e-6, 100e-6, True),
        (18e-6, 100e-6, False),  # more than a sixth: kernels may contain that much of dispatch
        (None, 10e-6, False),
        (10e-6, None, False),
    ]
    columns = (
        cpu_clocks(1e-4, dispatch_s, spread=0) | (profiled(9, kernels_s) if kernels_s else {})
        for dispatch_s, kernels_s, _ in planted
    )
    flagged = [list(row["flags"]) == [DISAGREES] for row in _rows(tmp_path, *columns)]
    assert flagged == [expected for *_, expected in planted]


def test_kernels_are_compared_with_the_unrecorded_calls_beside_them(tmp_path: Path) -> None:
    """The machine was 1.75 times slower in half of the profiled calls, and beside them."""
    paces = np.where(np.arange(24) % 2, 1.75, 1.0)
    columns = cpu_clocks(1e-4, 10e-6) | {"profiled_kernels_rounds_s": tuple(90e-6 * paces)}
    turns = (tuple(1e-4 * paces), (1e-4,) * 24)
    each = (columns | {"profiled_latency_rounds_s": latencies_s} for latencies_s in turns)
    beside, before = _rows(tmp_path, *each)
    assert beside["flags"] == []
    assert beside["residual_s"] == pytest.approx(0, abs=1e-7)
    assert before["residual_s"] == pytest.approx(-0.375 * 90e-6, rel=1e-2)


def test_the_whole_interval_must_lie_beyond_the_limit(tmp_path: Path) -> None:
    planted = [
        (24, 0.02, True),
        (24, 0.3, False),  # the interval includes the limit
        (11, 0.3, True),  # too few for an interval
    ]
    for shown in (0.8, 1.2):
        columns = (
            cpu_clocks(1e-4, 10e-6)
            | {
                "profiled_kernels_rounds_s": blocks(90e-6 * shown, count=turns, spread=spread),
                "profiled_latency_rounds_s": (1e-4,) * turns,
            }
            for turns, spread, _ in planted
        )
        rows = _rows(tmp_path / f"{shown}", *columns)
        assert [DISAGREES in row["flags"] for row in rows] == [flagged for *_, flagged in planted]
        residuals = [90e-6 * (1 - shown)] * 3
        assert [row["residual_s"] for row in rows] == pytest.approx(residuals, rel=1e-2)


def test_an_inconclusive_split_is_not_checked(tmp_path: Path) -> None:
    """Nor is one without calls beside the profiled ones.

    Dispatch is 6 to 14 % of the last call. Kernels of 104 % are 111 % of the work if it is 94 %.
    """
    clocks, seen = cpu_clocks(1e-4, 10e-6), profiled(9, 50e-6)
    wide = {"dispatch_rounds_s": blocks(10e-6, count=24, spread=0.9)}
    rows = _rows(
        tmp_path,
        clocks | seen | {"profiled_latency_rounds_s": None},
        clocks | seen | {"budget": "smoke"},
        clocks | seen | {"status": "wrong_result", "reason": "why"},
        clocks | seen | cuda_clocks(60e-6, 90e-6),
        clocks | wide | profiled(9, 90e-6 * 1.16),
    )
    assert [DISAGREES in row["flags"] for row in rows] == [False] * 5
    assert rows[0]["residual_s"] is None


def test_each_process_is_checked_separately(tmp_path: Path) -> None:
    clocks = cpu_clocks(1e-4, 10e-6)
    processes = [
        record("eager", 1e-4, 1.0, replicate=number, **clocks, **profile)
        for number, profile in enumerate((profiled(9, 90e-6), profiled(9, 50e-6), {}))
    ]
    assert _combined(tmp_path, *processes)["flags"] == [DISAGREES]


def test_shares_of_all_processes_are_combined(tmp_path: Path) -> None:
    """Two processes of different speed: the profiler saw 0.81 and 1 of the work of each."""
    clocks = [cuda_clocks(60e-6, device_s) for device_s in (40e-6, 50e-6)]
    seen = [profiled(9, busy_s) for busy_s in (40e-6 * 0.81, 50e-6)]
    records = [
        record(
            "eager", latency_s, 1.0, replicate=number, spread=0, **clocks[number], **seen[number]
        )
        for number, latency_s in enumerate((100e-6, 125e-6))
    ]
    row = _combined(tmp_path, *records)
    assert row["residual_s"] == pytest.approx((40e-6 * 50e-6) ** 0.5 * (1 - 0.9), rel=1e-3)
    # busy for 0.324 and 0.4 of the call
    assert row["device_idle_fraction"] == pytest.approx(1 - (0.324 * 0.4) ** 0.5, rel=1e-3)


def test_on_a_cpu_kernels_are_compared_with_the_clocks_of_their_process(tmp_path: Path) -> None:
    """One process is twice as slow; with the kernels of the other the residual would be large."""
    records = [
        record("eager", 1e-4 * pace, 1.0, replicate=number,
               **cpu_clocks(1e-4 * pace, 1e-5 * pace), **profiled(9, 0.9e-4 * pace * 0.98))
        for number, pace in enumerate((1, 2))
    ]  # fmt: skip
    row = _combined(tmp_path, *records)
    assert row["residual_s"] == pytest.approx(0.9e-4 * 2**0.5 * 0.02, rel=1e-3)


def test_residual_and_idle_fraction_are_what_the_profile_lacks(tmp_path: Path) -> None:
    clocks = cuda_clocks(90e-6, 40e-6)
    on_cpu, overlapping, busy, longer, none = _rows(
        tmp_path,
        cpu_clocks(1e-4, 10e-6) | profiled(9, 95e-6),
        clocks | profiled(9, 50e-6, device_busy_s=36e-6),  # two streams
        clocks | profiled(9, 35e-6),
        clocks | profiled(9, 120e-6),
        clocks,
    )
    assert on_cpu["residual_s"] == pytest.approx(-5e-6, abs=1e-7)
    assert overlapping["residual_s"] == pytest.approx(4e-6)
    assert busy["device_idle_fraction"] == pytest.approx(0.65, rel=1e-3)
    assert longer["device_idle_fraction"] == 0
    assert [row["device_idle_fraction"] for row in (on_cpu, none)] == [None, None]
    assert none["residual_s"] is None


def test_an_implausible_profile_gives_no_columns(tmp_path: Path) -> None:
    columns = cuda_clocks(90e-6, 40e-6) | profiled(9, 35e-6)
    for row in _rows(tmp_path, *(columns | {"flags": (flag,)} for flag in sorted(DOUBTS))):
        assert (row["device_idle_fraction"], row["residual_s"]) == (None, None)


CALL = {"profiled_span_s": 200e-6, "guards_s": 30e-6, "compiled_wrapper_s": 20e-6}


def test_the_parts_of_a_compiled_call_add_up_to_it() -> None:
    call = compiled_call(CALL)
    assert call is not None
    assert (call.lookup_s, call.wrapper_s) == (30e-6, 20e-6)
    assert call.rest_s == pytest.approx(150e-6)
    assert call.overhead_share == pytest.approx(0.25)


@pytest.mark.parametrize("name", CALL)
def test_without_one_of_the_columns_nothing_is_known(name: str) -> None:
    assert compiled_call({**CALL, name: None}) is None
    assert compiled_call({key: value for key, value in CALL.items() if key != name}) is None


def test_parts_longer_than_the_call_are_not_of_it() -> None:
    assert compiled_call({**CALL, "guards_s": 180e-6}) is not None
    assert compiled_call({**CALL, "guards_s": 181e-6}) is None


KERNELS, OPERATORS = profile.KINDS


def _listed(*named: tuple[str, float, float]) -> str:
    return json.dumps([{"name": name, "count": count, "seconds": s} for name, count, s in named])


def _seen(*kernels: tuple[str, float, float]) -> dict[str, Any]:
    return {"heaviest_kernels": _listed(*kernels), "kernels_s": 200e-6}


def test_the_heaviest_kernels_and_operators_of_each_mode_have_shares(tmp_path: Path) -> None:
    operators: dict[str, Any] = {
        "heaviest_ops": _listed(("aten::linear", 4, 30e-6)),
        "profiled_span_s": 120e-6,
    }
    records = [
        record("compile", in_effect=False, **_seen(("cpp_fused", 1.5, 50e-6))),
        record("eager", **_seen(("aten::addmm", 2, 120e-6), ("x" * 300, 1, 2e-6))),
        record("no_grad", **operators),
    ]
    rows = rows_of_each(tmp_path, records)
    first, second, third = heaviest(rows, KERNELS)
    assert first == ("eager fp32", "aten::addmm", "2", "120 µs", "60 %")
    assert second[1] == "x" * 79 + "…"
    assert third == ("compile fp32", "cpp_fused", "1.5", "50.0 µs", "25 %")
    assert list(heaviest(rows, OPERATORS)) == [
        ("no_grad fp32", "aten::linear", "4", "30.0 µs", "25 %")
    ]


def test_no_share_is_above_one_and_only_a_few_are_listed(tmp_path: Path) -> None:
    planted: list[tuple[float, float | None, str]] = [
        (200e-6, 200e-6, "100 %"), (200.1e-6, 200e-6, "100 %"), (203e-6, 200e-6, "–"),
        (1e-6, 0.0, "–"), (1e-6, None, "–"),
    ]  # fmt: skip
    columns = (_seen(("a", 1, s)) | {"kernels_s": whole_s} for s, whole_s, _ in planted)
    many = _seen(*((f"k{n}", 1, 1e-6) for n in range(10)))
    *rows, last = _rows(tmp_path, *columns, many)
    found = [line[-1] for row in rows for line in heaviest([row], KERNELS)]
    assert found == [share for *_, share in planted]
    assert [line[1] for line in heaviest([last], KERNELS)] == ["k0", "k1", "k2", "k3", "k4"]
