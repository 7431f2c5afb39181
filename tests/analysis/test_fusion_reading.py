"""Which modes do less work, in a sentence that says how far it can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import fusion_reading
from analysis.metrics import derived
from bench.records import Record
from tests.analysis.passes import cuda_passes, profiled
from tests.analysis.studies import cpu_clocks, cuda_clocks, record, save

EAGER = 100e-6  # the baseline's latency
CAUTION = "An interval holds within each process that was measured"


def _cpu(mode: str, latency_s: float, dispatch_s: float, **columns: Any) -> Record:
    return record(
        mode, latency_s, EAGER / latency_s, **cpu_clocks(latency_s, dispatch_s), **columns
    )


def _cuda(mode: str, device_s: float, **columns: Any) -> Record:
    return record(mode, 202e-6, 1.2, **(cuda_clocks(50e-6, device_s) | columns))


def _told(folder: Path, *records: Record) -> str | None:
    return fusion_reading.reading(derived(save(records, folder)))


def test_it_is_told_who_does_less_work_in_how_many_kernels(tmp_path: Path) -> None:
    told = _told(
        tmp_path,
        _cpu("inference_mode", 90e-6, 10e-6, **profiled(16, 80e-6)),
        _cpu("compile", 50e-6, 10e-6, **profiled(1, 40e-6)),
        _cpu("max-autotune", 130e-6, 10e-6),
        _cpu("max-autotune-no-cudagraphs", 90e-6, 10e-6),
    )
    assert told is not None
    assert told.startswith("Less work than in plain eager: compile fp32 (2.00× [")
    fused, tuned, last = told.split(" fp32 (")[1:]
    assert "], 1 kernel for 16, which alone gains 1.80×, and dispatch 1.00×)" in fused
    assert fused.endswith("; more work: max-autotune")
    assert tuned.startswith("0.67× [")
    assert last == "1.00× [0.98, 1.02], which alone gains 1.00×, and dispatch 1.00×)."
    assert "leave open" in told


def test_on_cuda_what_launching_gained_is_told(tmp_path: Path) -> None:
    told = _told(tmp_path / "cuda", *cuda_passes())
    assert told is not None
    assert "9 kernels for 42, which alone gains 1.08×, and launching 3.06×" in told
    assert _told(tmp_path / "none", _cpu("inference_mode", 90e-6, 30e-6)) is None


@pytest.mark.parametrize(("count", "cautious"), [(1, True), (4, True), (5, False)])
def test_device_times_of_few_processes_are_told_with_caution(
    tmp_path: Path, count: int, cautious: bool
) -> None:
    records = [
        _cuda(mode, device_s * (1 + number / 1000), replicate=number)
        for mode, device_s in (("inference_mode", 200e-6), ("compile", 100e-6))
        for number in range(count)
    ]
    told = _told(tmp_path, *records)
    assert told is not None
    assert told.startswith("Less work than in plain eager: compile fp32 (2.0")
    assert (CAUTION in told) is cautious


def test_one_row_of_few_processes_is_enough_for_caution(tmp_path: Path) -> None:
    many = [_cuda("compile", 100e-6, replicate=number) for number in range(5)]
    told = _told(tmp_path, _cuda("inference_mode", 200e-6), *many)
    assert told is not None
    assert told.endswith("see with replicates=5.")


def test_paired_latencies_of_a_cpu_need_none(tmp_path: Path) -> None:
    told = _told(tmp_path, _cpu("inference_mode", 90e-6, 10e-6), _cpu("compile", 50e-6, 10e-6))
    assert told is not None
    assert CAUTION not in told


@pytest.mark.parametrize(
    ("clock_hz", "is_open"),
    [
        ((0.3e9, 1.98e9, 1.98e9), False),
        ((0.3e9, 1.965e9, 1.965e9), False),  # 0.8 % lower
        ((1.98e9, 1.95e9, 1.95e9), True),  # 1.5 % lower while device time was read
        ((1.98e9, 1.98e9, 1.93e9), True),  # 1.3 % lower between the two moments around it
        (None, False),
        ((), False),
    ],
)
def test_work_at_another_clock_of_the_gpu_is_left_open(
    tmp_path: Path, clock_hz: tuple[float, ...] | None, is_open: bool
) -> None:
    told = _told(
        tmp_path,
        _cuda("inference_mode", 200e-6, device_clock_hz=(1.98e9, 1.98e9, 1.98e9)),
        _cuda("compile", 100e-6, device_clock_hz=clock_hz),
    )
    assert told is not None
    opening = "Open, as the clock of the GPU was another in plain eager (by more than 1 %): compile"
    assert told.startswith(opening if is_open else "Less work than in plain eager: compile")
