"""Series over sizes, and grids of speedups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.series import (
    Grid,
    Line,
    Series,
    grids,
    series,
)
from modescope.bench.records.results import Record
from tests.helpers.drawings import rows_of, series_of
from tests.helpers.pass_columns import cpu_training
from tests.helpers.studies import (
    CUDA_HOST,
    SERIES,
    at_size,
    batch_series,
    cpu_clocks,
    cuda_clocks,
    cuda_series,
    dispatch_series,
    record,
)


def _line(found: Series, name: str) -> Line:
    (line,) = (line for line in found.lines if line.name == name)
    return line


def test_rows_that_differ_in_one_size_form_a_series(tmp_path: Path) -> None:
    found = series_of(tmp_path, *batch_series())
    assert (found.size, found.others, found.is_chain) == ("batch", '{"seq":64}', False)
    assert _line(found, "eager").sizes == (1, 4, 16, 64, 256)
    assert len(found.lines) == 3


def test_two_sizes_do_not_form_a_series(tmp_path: Path) -> None:
    assert series(rows_of(tmp_path, *batch_series((1, 64)))) == []


def test_a_grid_has_a_series_for_each_choice_of_the_other_size(tmp_path: Path) -> None:
    grid = [
        record(shape=f'{{"batch":{batch},"ops":{ops}}}', batch=batch)
        for batch in (1, 8)
        for ops in (4, 16, 64)
    ]
    found = series(rows_of(tmp_path, *grid))
    assert [(one.size, one.others) for one in found] == [
        ("ops", '{"batch":1}'), ("ops", '{"batch":8}'),
    ]  # fmt: skip


def test_each_precision_and_baseline_has_its_own_line(tmp_path: Path) -> None:
    bf16 = [
        replace(one, work=replace(one.work, dtype="bf16", baseline_dtype="bf16"),
                attempt=replace(one.attempt, case_id=one.attempt.case_id + "bf16"))
        for one in batch_series((1, 4, 16))
    ]  # fmt: skip
    names = [line.name for line in series_of(tmp_path, *batch_series((1, 4, 16)), *bf16).lines]
    assert "eager fp32 against eager fp32" in names
    assert "eager bf16 against eager bf16" in names
    assert len(names) == 6


def test_a_planted_cost_per_operator_lies_in_its_interval(tmp_path: Path) -> None:
    chain = series_of(tmp_path, *dispatch_series())
    assert chain.is_chain
    for mode, (per_op_s, _) in SERIES.items():
        slope = _line(chain, mode).slope
        assert slope.low <= per_op_s <= slope.high
        assert slope.high - slope.low < max(0.1 * per_op_s, 30e-9)


def test_the_crossing_is_interpolated_on_logarithmic_axes(tmp_path: Path) -> None:
    found = series_of(tmp_path, *batch_series())
    # eager: shares 50/66 at 16 and 50/114 at 64; half of them is passed at ln(1.515) of the way
    before, beyond = math.log(50 / 66 * 2), math.log(50 / 114 * 2)
    way = before / (before - beyond)
    crossing = _line(found, "eager").crossing
    assert crossing.size == pytest.approx(16 * 4**way, rel=1e-4)
    assert (crossing.falling, crossing.after, crossing.before) == (True, 16, 64)


def test_the_planted_crossing_is_found_where_sizes_are_close(tmp_path: Path) -> None:
    found = series_of(tmp_path, *batch_series((8, 9, 10, 11, 12, 32, 33, 34, 48, 50, 52)))
    planted = {"eager": 50, "inference_mode": 33, "compile": 10}
    for mode, size in planted.items():
        assert _line(found, mode).crossing.size == pytest.approx(size, rel=1e-2)


def test_outside_the_measured_sizes_there_is_no_crossing(tmp_path: Path) -> None:
    left = series_of(tmp_path / "left", *batch_series((1, 2, 4)))
    right = series_of(tmp_path / "right", *batch_series((128, 256, 512)))
    assert [line.crossing for line in (*left.lines, *right.lines)] == [None] * 6


def test_the_crossing_is_unknown_without_a_dispatch_time(tmp_path: Path) -> None:
    lines = [record("amp", shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    found = series_of(tmp_path, *lines)
    (line,) = found.lines
    assert (line.slope, line.crossing) == (None, None)


def test_a_share_that_wavers_around_half_has_no_crossing(tmp_path: Path) -> None:
    shares = (0.6, 0.4, 0.6, 0.4)
    wavering = [
        record("eager", 1e-4, shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, share * 1e-4))
        for n, share in enumerate(shares, start=1)
    ]
    found = series_of(tmp_path, *wavering)
    (line,) = found.lines
    assert line.crossing is None


def test_on_cuda_host_time_is_the_overhead_of_graphs_too(tmp_path: Path) -> None:
    chain = series_of(tmp_path, *cuda_series("ops"))
    assert chain.overhead.clock == "host"
    for mode, (fixed_s, per_op_s) in CUDA_HOST.items():
        slope = _line(chain, mode).slope
        assert slope.value == pytest.approx(per_op_s, rel=1e-6)
        assert (fixed_s, _line(chain, mode).rows[0]["dispatch_s"] is None) in (
            (20e-6, False), (6e-6, True),
        )  # fmt: skip


def test_on_cuda_host_and_device_cross_where_bound_by_changes(tmp_path: Path) -> None:
    found = series_of(tmp_path, *cuda_series("batch"))
    for line in found.lines:
        # the device works 1 us per row of the batch; the host is busy for as long at any batch
        planted = line.rows[0]["host_s"] / 1e-6
        sides = {n: row["bound_by"] for n, row in zip(line.sizes, line.rows, strict=True)}
        assert set(sides.values()) == {"overhead", "work"}
        assert line.crossing.size == pytest.approx(planted, rel=1e-6)
        assert line.crossing.after == max(n for n, side in sides.items() if side == "overhead")
        assert line.crossing.before == min(n for n, side in sides.items() if side == "work")


def test_on_cuda_the_crossing_is_unknown_without_a_device_time(tmp_path: Path) -> None:
    lines = [
        record("eager", 1e-4, shape=f'{{"batch":{n}}}', **cuda_clocks(5e-5, None))
        for n in (1, 2, 4)
    ]
    found = series_of(tmp_path, *lines)
    (line,) = found.lines
    assert line.slope is not None
    assert line.crossing is None


def test_cold_and_warm_caches_have_their_own_lines(tmp_path: Path) -> None:
    warm = batch_series((1, 4, 16), compile_cache="warm")
    names = [line.name for line in series_of(tmp_path, *batch_series((1, 4, 16)), *warm).lines]
    assert names.count("eager with a cold cache") == names.count("eager with a warm cache") == 1
    assert len(names) == 6


def test_slopes_compare_processes_at_equal_pace(tmp_path: Path) -> None:
    """Every other process ran while the machine was slower."""
    paces = itertools.cycle((1.0, 1.75))
    chain = series_of(tmp_path, *(_slower(next(paces), each) for each in dispatch_series(noise=0)))
    for mode, (per_op_s, _) in SERIES.items():
        assert _line(chain, mode).slope.value == pytest.approx(per_op_s, rel=1e-3)


def _slower(slowdown: float, one: Record) -> Record:
    """The record of the same process on a machine that ran at 1 ÷ `slowdown` of its speed."""
    timed = {name: each for name, each in vars(one.findings).items() if name.endswith("_rounds_s")}
    slower: dict[str, Any] = {
        name: tuple(slowdown * second for second in seconds)
        for name, seconds in timed.items()
        if seconds is not None
    }
    return replace(one, findings=replace(one.findings, **slower))


def test_each_set_of_training_options_has_its_own_series(tmp_path: Path) -> None:
    plain = [one for batch in (1, 8, 64) for one in cpu_training(batch)]
    again = [one for batch in (1, 8, 64) for one in cpu_training(batch, training='{"lr":0.1}')]
    rows = rows_of(tmp_path, *plain, *again)
    mixed = [part for _, part in rows.groupby("training")]
    assert [len(series(part)) for part in mixed] == [1, 1]


def _grids(folder: Path, records: Sequence[Record]) -> list[Grid]:
    return grids(rows_of(folder, *records))


def test_a_grid_has_a_row_per_mode_and_a_column_per_batch(tmp_path: Path) -> None:
    (grid,) = _grids(tmp_path, batch_series((1, 4, 64)))
    assert (grid.size, grid.others, grid.sizes) == ("batch", '{"seq":64}', (1, 4, 64))
    assert grid.names == ("eager", "inference_mode", "compile")
    assert [row["batch"] for row in grid.modes[2] if row] == [1, 4, 64]


def test_one_size_makes_no_grid(tmp_path: Path) -> None:
    assert _grids(tmp_path, [record("eager"), record("compile")]) == []


def test_the_batch_is_preferred_to_a_size_with_more_values(tmp_path: Path) -> None:
    records = [at_size("compile", 1.5, batch, seq) for batch in (1, 8) for seq in (32, 64, 128)]
    found = _grids(tmp_path, records)
    assert [(grid.size, grid.others) for grid in found] == [
        ("batch", '{"seq":32}'), ("batch", '{"seq":64}'), ("batch", '{"seq":128}'),
    ]  # fmt: skip
    (ops,) = _grids(tmp_path / "ops", dispatch_series())
    assert ops.size == "ops"


def test_untrusted_rows_leave_their_cells_empty(tmp_path: Path) -> None:
    records = [
        at_size("compile", 1.5, 1), at_size("compile", 1.5, 8), at_size("compile", 1.5, 64),
        at_size("no_grad", 1.1, 1), at_size("no_grad", 1.1, 8, in_effect=False),
    ]  # fmt: skip
    (grid,) = _grids(tmp_path, records)
    assert [row is None for row in grid.modes[0]] == [False, True, True]


def test_precisions_and_caches_are_never_mixed(tmp_path: Path) -> None:
    records = [at_size("amp", 2.0, 1), at_size("amp", 2.0, 8), at_size("compile", 1.5, 1)]
    records += [at_size("compile", 1.5, 8), at_size("compile", 1.6, 8, compile_cache="warm")]
    bf16, fp32 = _grids(tmp_path, records)
    assert bf16.names == ("amp",)
    assert sorted(fp32.names) == ["compile, cold cache", "compile, warm cache"]
