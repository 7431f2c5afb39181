"""Series over sizes, and grids of speedups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.series import Grid, Line, SizeSeries, grids, series
from modescope.bench.records.results import Findings, Record, row
from tests.helpers.drawings import rows_of, series_of
from tests.helpers.findings import with_defaults
from tests.helpers.studies import (
    SERIES,
    at_size,
    batch_series,
    cpu_clocks,
    cuda_series,
    dispatch_series,
    record,
)


def _line(found: SizeSeries, name: str) -> Line:
    (line,) = (line for line in found.lines if line.name == name)
    return line


def test_rows_that_differ_in_one_size_form_a_series(tmp_path: Path) -> None:
    found = series_of(tmp_path / "three", *batch_series())
    assert (found.size, found.others, found.is_chain) == ("batch", '{"seq":64}', False)
    assert [line.sizes for line in found.lines] == [(1, 4, 16, 64, 256)] * 3
    assert series(rows_of(tmp_path / "two", *batch_series((1, 64)))) == []


def test_the_planted_crossing_is_found_where_sizes_are_close(tmp_path: Path) -> None:
    """And interpolated on logarithmic axes where they are not."""
    found = series_of(tmp_path / "close", *batch_series((8, 9, 10, 11, 12, 32, 33, 34, 48, 50, 52)))
    planted = {"eager": 50, "inference_mode": 33, "compile": 10}
    for mode, size in planted.items():
        assert _line(found, mode).crossing.size == pytest.approx(size, rel=1e-2)
    # eager: shares 50/66 at 16 and 50/114 at 64; half of them is passed at ln(1.515) of the way
    before, beyond = math.log(50 / 66 * 2), math.log(50 / 114 * 2)
    crossing = _line(series_of(tmp_path / "wide", *batch_series()), "eager").crossing
    assert crossing.size == pytest.approx(16 * 4 ** (before / (before - beyond)), rel=1e-4)
    assert (crossing.falling, crossing.after, crossing.before) == (True, 16, 64)


def _at_batches(clocks: Sequence[dict[str, Any]]) -> list[Record]:
    return [
        record("eager", 1e-4, shape=f'{{"batch":{n}}}', **columns)
        for n, columns in enumerate(clocks, start=1)
    ]


@pytest.mark.parametrize(
    "records",
    [
        batch_series((1, 2, 4)),  # the crossing lies outside of the measured sizes
        _at_batches([cpu_clocks(1e-4, None)] * 3),
        _at_batches([cpu_clocks(1e-4, share * 1e-4) for share in (0.6, 0.4, 0.6, 0.4)]),  # wavers
    ],
)
def test_there_is_no_crossing(tmp_path: Path, records: Sequence[Record]) -> None:
    lines = series_of(tmp_path, *records).lines
    assert {line.crossing for line in lines} == {None}


def test_on_cuda_host_and_device_cross_where_bound_by_changes(tmp_path: Path) -> None:
    found = series_of(tmp_path, *cuda_series("batch"))
    for line in found.lines:
        # the device works 1 us per row of the batch; the host is busy for as long at any batch
        planted = line.rows[0]["host_s"].value / 1e-6
        sides = {n: row["bound_by"] for n, row in zip(line.sizes, line.rows, strict=True)}
        assert set(sides.values()) == {"overhead", "work"}
        assert line.crossing.size == pytest.approx(planted, rel=1e-6)
        assert line.crossing.after == max(n for n, side in sides.items() if side == "overhead")
        assert line.crossing.before == min(n for n, side in sides.items() if side == "work")


def test_slopes_compare_processes_at_equal_pace(tmp_path: Path) -> None:
    """Every other process ran while the machine was slower."""
    paces = itertools.cycle((1.0, 1.75))
    chain = series_of(tmp_path, *(_slower(next(paces), each) for each in dispatch_series(noise=0)))
    for mode, (per_op_s, _) in SERIES.items():
        assert _line(chain, mode).slope.value == pytest.approx(per_op_s, rel=1e-3)


def _slower(slowdown: float, one: Record) -> Record:
    """The record of the same process on a machine that ran at 1 ÷ `slowdown` of its speed."""
    columns = row(one.findings)
    slower = {
        name: tuple(slowdown * second for second in seconds)
        for name, seconds in columns.items()
        if name.endswith("_rounds_s") and seconds is not None
    }
    return replace(one, findings=with_defaults(Findings, columns | slower))


def _grids(folder: Path, records: Sequence[Record]) -> list[Grid]:
    return grids(rows_of(folder, *records))


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
    assert (grid.size, grid.others, grid.sizes) == ("batch", '{"seq":64}', (1, 8, 64))
    assert [row is None for row in grid.modes[0]] == [False, True, True]


def test_precisions_and_caches_are_never_mixed(tmp_path: Path) -> None:
    records = [at_size("amp", 2.0, 1), at_size("amp", 2.0, 8), at_size("compile", 1.5, 1)]
    records += [at_size("compile", 1.5, 8), at_size("compile", 1.6, 8, compile_cache="warm")]
    bf16, fp32 = _grids(tmp_path, records)
    assert bf16.names == ("amp",)
    assert sorted(fp32.names) == ["compile, cold cache", "compile, warm cache"]
