"""Speedups by mode and size: which rows share a grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.series import Grid, grids
from modescope.bench.records.results import Record
from tests.helpers.studies import at_size, batch_series, dispatch_series, record, save


def _grids(folder: Path, records: Sequence[Record]) -> list[Grid]:
    return grids(derived(save(records, folder)))


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
