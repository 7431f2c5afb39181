"""The measured ceilings in the header of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modescope.analysis.derive.registry import derived
from modescope.analysis.report.ceilings import ceilings
from modescope.analysis.report.study import MOST_PLACES, Study
from modescope.bench.records.results import Record
from tests.helpers.studies import record, save


def _ceilings(folder: Path, *records: Record) -> str:
    return ceilings(Study("main", "main", derived(save(records, folder)), (), {}))


def _measured(compute: float, memory: float | None = None, **columns: Any) -> Record:
    return record(ceiling_flops_per_s=compute, ceiling_bytes_per_s=memory, **columns)


def test_without_measured_ceilings_there_is_no_such_line(tmp_path: Path) -> None:
    assert _ceilings(tmp_path / "none", record()) == ""


def test_several_places_are_named_and_too_many_are_left_out(tmp_path: Path) -> None:
    def on(*devices: int) -> list[Record]:
        names = [f"CPU {number}" for number in devices]
        return [_measured(1e9, device_name=each, environment_id=each) for each in names]

    two = _ceilings(tmp_path / "two", *on(1, 2))
    assert two.count("matrix products 1.00 GFLOP/s in fp32") == 2
    assert "CPU 1, 1 thread, environment A: " in two
    assert _ceilings(tmp_path / "many", *on(*range(MOST_PLACES + 1))) == ""
