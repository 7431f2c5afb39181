from __future__ import annotations

from pathlib import Path

import pytest

from analysis import readings
from analysis.metrics import derived
from analysis.series import Series, series
from bench.records import Record
from tests.analysis.passes import cuda_passes, profiled
from tests.analysis.studies import (
    batch_series,
    cpu_clocks,
    cuda_series,
    cuda_sweep,
    dispatch_series,
    record,
    replicates,
    save,
)


def _series(folder: Path, *records: Record) -> Series:
    (found,) = series(derived(save(records, folder)))
    return found


def test_the_shortest_latency_is_named_with_what_overlaps_it(tmp_path: Path) -> None:
    told = readings.latency(derived(save([
        record("eager", 400e-6, 1.0),
        record("compile", 300e-6, 1.3),
        record("max-autotune", 301e-6, 1.3),
    ], tmp_path)))  # fmt: skip
    assert told.startswith(
        "Shortest: compile fp32, 300.0 µs [299.0, 301.0]; the intervals of max-autotune fp32 "
        "overlap it. An interval holds within its processes"
    )


@pytest.mark.parametrize(
    ("count", "expected"), [(4, "others of the same code differ"), (5, "over fresh processes")]
)
def test_latencies_of_fewer_than_five_processes_say_little(
    tmp_path: Path, count: int, expected: str
) -> None:
    other = [record("eager", 468e-6, 1.0, replicate=n) for n in range(count)]
    told = readings.latency(derived(save([*replicates(count), *other], tmp_path)))
    assert expected in told


def test_where_a_call_goes_is_told_by_side(tmp_path: Path) -> None:
    rows = derived(save([
        record("eager", 100e-6, 1.0, **cpu_clocks(100e-6, 81e-6)),
        record("compile", 60e-6, 1.6, **cpu_clocks(60e-6, 12e-6)),
        record("no_grad", 100e-6, 1.0, **cpu_clocks(100e-6, 50.1e-6)),
        record("amp", 200e-6, 0.5, **cpu_clocks(200e-6, None)),
    ], tmp_path))  # fmt: skip
    assert readings.overhead(rows) == (
        "Dispatch is more than half of the call, so fewer operators help: eager fp32 (81 %). "
        "Dispatch is less than half of the call, so faster kernels help more: compile fp32 "
        "(20 %). Whether dispatch is more than half the intervals leave open: no_grad fp32 "
        "(50 %). Cannot be said: amp bf16 (autocast casts every weight on an empty batch too). "
        "Not checked against a profile: there is none to rely on."
    )


def test_on_cuda_host_and_device_are_compared(tmp_path: Path) -> None:
    told = readings.overhead(derived(save(cuda_sweep(), tmp_path)))
    host, device = told.index("The host is busy"), told.index("The device is busy")
    assert host < told.index("eager fp32 (host 120 µs, device 40.0 µs)") < device
    assert device < told.index("cuda-graph fp32 (host 8.00 µs, device 41.0 µs)")
    assert "Cannot be said: max-autotune fp32 (the queue ran empty)." in told


def test_the_profiler_is_held_against_the_clocks_where_they_compare(tmp_path: Path) -> None:
    work = [
        record("eager", 1e-4, 1.0, **cpu_clocks(1e-4, 10e-6), **profiled(9, 93e-6)),
        record("compile", 6e-5, 1.6, **cpu_clocks(6e-5, 6e-6), **profiled(2, 5e-5)),
        record("no_grad", 1e-4, 1.0, **cpu_clocks(1e-4, 6e-5), **profiled(9, 93e-6)),
    ]
    why = "more than 17 % of the call is dispatch, and kernels contain a part of that"
    told = readings.overhead(derived(save(work, tmp_path / "work")))
    assert told is not None
    assert told.endswith(
        "The profiler saw at most 7 % less work than the clocks (compile fp32). Not checked "
        f"against a profile: no_grad fp32 ({why})."
    )
    overhead = readings.overhead(derived(save(work[2:], tmp_path / "overhead")))
    assert overhead is not None
    assert overhead.endswith(f"Not checked against a profile: {why}.")
    on_cuda = readings.overhead(derived(save(cuda_passes(), tmp_path / "cuda")))
    assert on_cuda is not None
    assert "eager fp32 (host 120 µs, device 40.0 µs, idle 71 %)" in on_cuda
    assert "at most 5 % less work than the clocks" in on_cuda
    assert "Not checked" not in on_cuda


def test_a_work_bound_split_is_said_not_to_be_checked_where_it_is_not(tmp_path: Path) -> None:
    """Bound by work up to a half of dispatch, checked up to a sixth."""
    records = [
        record("eager", 1e-4, 1.0, **cpu_clocks(1e-4, 30e-6), **profiled(9, 90e-6)),
        record("compile", 1e-4, 1.0, **cpu_clocks(1e-4, 10e-6), **profiled(2, 88e-6)),
        record("no_grad", 1e-4, 1.0, **cpu_clocks(1e-4, 10e-6)),
        record("inference_mode", 1e-4, 1.0, flags=("profile_lost_events",),
               **cpu_clocks(1e-4, 10e-6), **profiled(2, 88e-6)),
    ]  # fmt: skip
    told = readings.overhead(derived(save(records, tmp_path)))
    assert told is not None
    assert told.endswith(
        "(compile fp32). Not checked against a profile: eager fp32 (more than 17 % of the call is "
        "dispatch, and kernels contain a part of that); no_grad fp32, inference_mode fp32 (there "
        "is none to rely on)."
    )


def test_a_note_on_a_known_dispatch_is_no_reason_why_it_would_be_unknown(tmp_path: Path) -> None:
    """Three blocks are too few for an interval."""
    three = {"dispatch_rounds_s": (30e-6, 31e-6, 32e-6), "dispatch_note": "guards and wrapper"}
    told = readings.overhead(derived(save([record(**(cpu_clocks(1e-4, 30e-6) | three))], tmp_path)))
    assert told is not None
    assert "guards and wrapper" not in told
    assert "compile fp32 (no interval of the dispatch time)" in told


def test_without_dispatch_times_nothing_is_said_of_them(tmp_path: Path) -> None:
    told = readings.overhead(derived(save([record()], tmp_path)))
    assert told == "This data cannot say where the time goes: compile fp32 (not measured)."
    spoiled = derived(save([record(in_effect=False)], tmp_path / "spoiled"))
    assert readings.overhead(spoiled) is None
    assert readings.latency(spoiled) is None


def test_modes_are_ordered_by_slope_and_overlaps_are_marked(tmp_path: Path) -> None:
    apart = readings.slopes(_series(tmp_path / "apart", *dispatch_series()))
    order = [apart.index(mode) for mode in ("compile", "inference_mode", "no_grad", "eager")]
    assert order == sorted(order)
    assert apart.startswith("Dispatch per op, cheapest first: compile ")
    assert "≈" not in apart
    noisy = readings.slopes(_series(tmp_path / "noisy", *dispatch_series(noise=0.2)))
    assert noisy.endswith("(≈: the intervals overlap).")


def test_it_is_told_up_to_which_size_each_mode_is_bound_by_overhead(tmp_path: Path) -> None:
    told = readings.bounds(_series(tmp_path, *batch_series()))
    assert told == (
        "Bound by overhead, as dispatch takes more than half of the call: eager up to about "
        "batch 46 (surely between 16 and 64); inference_mode up to about batch 29 (surely "
        "between 16 and 64); compile up to about batch 8.9 (surely between 4 and 16)."
    )


def test_on_cuda_slopes_and_sides_are_told_by_host_and_device(tmp_path: Path) -> None:
    batches = _series(tmp_path / "batch", *cuda_series("batch"))
    assert readings.bounds(batches) == (
        "Bound by overhead, as the host is busy for longer than the device: eager up to about "
        "batch 20 (surely between 16 and 64); cuda-graph up to about batch 6 (surely between 4 "
        "and 16)."
    )
    told = readings.slopes(_series(tmp_path / "ops", *cuda_series("ops")))
    assert told.startswith("Host time per op, cheapest first: cuda-graph 200.0 ns")
    assert ", eager 5.000 µs" in told


def test_a_crossing_that_the_intervals_do_not_enclose_is_said_to_be_so(tmp_path: Path) -> None:
    shares = {1: 0.501, 2: 0.5005, 4: 0.499}
    found = _series(tmp_path, *(
        record("eager", 1e-4, shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, share * 1e-4))
        for n, share in shares.items()
    ))  # fmt: skip
    assert "(not certain by the intervals)" in readings.bounds(found)
