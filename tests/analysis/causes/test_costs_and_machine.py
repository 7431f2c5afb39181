"""Causes in the first call, in memory and in the use of the machine: worlds with each, others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.causes.finding import findings
from tests.helpers.causes import codes, of_last, profiled, rows_of
from tests.helpers.studies import PACE_S, cpu_clocks, record

MIB = 2**20


def test_a_long_first_call_is_named_with_its_phases_and_with_a_warm_cache(tmp_path: Path) -> None:
    same: dict[str, Any] = {"speedup": 1.25, "case_id": "same"}
    records = [
        record("compile", first_call_s=1.03, compile_cache="warm", **same),
        record("compile", first_call_s=3.36, **same),
    ]
    rows = rows_of(records, tmp_path)
    phases = '{"dynamo": 0.8, "inductor": 1.5, "autotune": 0, "aot": 0.3, "codegen": 0.7}'
    (found,) = of_last(rows, compile_phases_s=phases)
    assert found.code == "first_call"
    assert found.sentence == (
        "the first call takes 3.36 s, as long as 7,530 calls of the baseline: inductor 1.50 s, "
        "dynamo 0.800 s, codegen 0.700 s; with a warm compiler cache 1.03 s."
    )
    assert "it pays after" in found.remedy


def test_a_warm_cache_that_lacked_the_code_is_not_named(tmp_path: Path) -> None:
    same: dict[str, Any] = {"speedup": 1.25, "case_id": "same"}
    missed = record("compile", first_call_s=3.3, compile_cache="warm", compiler_cache_misses=1,
                    **same)  # fmt: skip
    (found,) = of_last(rows_of([missed, record("compile", first_call_s=3.36, **same)], tmp_path))
    assert found.code == "first_call"
    assert "compiler cache 3" not in found.sentence


@pytest.mark.parametrize(
    ("mode", "first_call_s"), [("compile", 0.2), ("no_grad", 3.0), ("compile", None)]
)
def test_a_first_call_that_does_not_dominate(
    tmp_path: Path, mode: str, first_call_s: float | None
) -> None:
    rows = rows_of([record(mode, speedup=1.25, first_call_s=first_call_s)], tmp_path)
    assert "first_call" not in codes(of_last(rows))


def _memory(tmp_path: Path, setup_mib: int, steady_mib: int) -> list[str]:
    steady = {
        "resident_bytes": steady_mib * MIB, "step_peak_bytes": 0, "graph_pool_bytes": 0,
        "graph_pool_live_bytes": 0,
    }  # fmt: skip
    eager = record("inference_mode", speedup=1.0, setup_peak_bytes=4 * MIB, **steady)
    one = record("compile", speedup=1.0, setup_peak_bytes=setup_mib * MIB, first_call_s=0.1,
                 **steady)  # fmt: skip
    return [each.sentence for each in of_last(rows_of([eager, one], tmp_path))]


def test_memory_of_compiling_is_compared_with_a_steady_call(tmp_path: Path) -> None:
    (text,) = _memory(tmp_path, 400, 10)
    assert text == (
        "the first call takes 400 MiB more memory, in eager 4.00 MiB; a steady call needs 10.0 MiB."
    )
    assert _memory(tmp_path / "little", 30, 10) == []
    assert _memory(tmp_path / "large", 400, 300) == []


def _threads(tmp_path: Path, count: int, latency_s: float) -> list[str]:
    other = record("compile", latency_s, 1.25, threads=count, case_id="other")
    last = record("compile", 357e-6, 1.25, first_call_s=0.1)
    return [each.sentence for each in of_last(rows_of([other, last], tmp_path))]


def test_another_number_of_threads_that_is_faster_is_named(tmp_path: Path) -> None:
    (text,) = _threads(tmp_path, 2, 200e-6)
    assert text.startswith("with 1 thread a call takes 357 µs [")
    assert "with 2 threads 200.0 µs [" in text
    assert text.endswith("] (both at the machine's full pace).")
    assert _threads(tmp_path / "equal", 2, 340e-6) == []
    assert _threads(tmp_path / "slower", 2, 500e-6) == []


def test_threads_are_compared_at_equal_pace(tmp_path: Path) -> None:
    """The process with one thread was slowed down by the machine, not by its thread."""
    same: dict[str, Any] = {"speedup": 1.25, "first_call_s": 0.1}
    other = record("compile", 200e-6, threads=2, case_id="other", **same)
    slowed = record("compile", 357e-6, pace_rounds_s=(1.785 * PACE_S,) * 40, **same)
    assert codes(of_last(rows_of([other, slowed], tmp_path / "slowed"))) == []
    unknown = record("compile", 357e-6, pace_rounds_s=None, **same)
    (found,) = of_last(rows_of([other, unknown], tmp_path / "unknown"))
    assert found.code == "threads"
    assert "full pace" not in found.sentence


@pytest.mark.parametrize("contended", [0, 1])
def test_threads_are_not_compared_beside_other_programs(tmp_path: Path, contended: int) -> None:
    records = [record("eager", 200e-6, 1.0, threads=2, case_id="2"), record("eager", speedup=1.0)]
    rows = rows_of(records, tmp_path)
    assert codes(findings(rows)[-1]) == ["threads"]
    rows[contended] = {**rows[contended], "flags": ["contended"]}
    assert findings(rows)[-1] == ()


def _near_the_rate(**columns: Any) -> Any:
    work = {"least_bytes": 1, "flops": 80_000, "ceiling_bytes_per_s": 1e12,
            "ceiling_flops_per_s": 1e9}  # fmt: skip
    return record("no_grad", 100e-6, 1.0, **(cpu_clocks(100e-6, 1e-6) | work | columns))


def test_idle_cores_are_a_hint_where_arithmetic_is_the_limit(tmp_path: Path) -> None:
    found = of_last(rows_of([_near_the_rate()], tmp_path))
    assert codes(found) == ["near_floor", "idle_cores"]
    assert "on 1 of 2 cores" in found[1].sentence
    others: tuple[dict[str, Any], ...] = ({"threads": 2}, {"flops": 20_000}, {"cpu_cores": None})
    for place, columns in enumerate(others):
        rows = rows_of([_near_the_rate(**columns)], tmp_path / str(place))
        assert "idle_cores" not in codes(of_last(rows)), columns


def test_idle_cores_are_no_hint_where_more_threads_were_measured(tmp_path: Path) -> None:
    records = [_near_the_rate(threads=2, case_id="other"), _near_the_rate()]
    assert "idle_cores" not in codes(of_last(rows_of(records, tmp_path)))


def test_a_warning_of_torch_comes_last(tmp_path: Path) -> None:
    columns = profiled(100e-6, ("aten::addmm", 4, 80e-6))
    rows = rows_of([record("no_grad", speedup=1.0, spread=0.002, **columns)], tmp_path)
    found = of_last(rows, torch_warnings='["TensorFloat32 is not enabled.  Consider it."]')
    assert codes(found) == ["unchanged_kernels", "torch_warning"]
    assert found[1].sentence == "torch warned: TensorFloat32 is not enabled. Consider it."
    assert codes(of_last(rows, torch_warnings="[]")) == ["unchanged_kernels"]
