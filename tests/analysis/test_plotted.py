"""The table beneath a figure has the rows of the figure, in its order, and its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import pictures, plotted
from analysis.metrics import derived
from analysis.series import series
from tests.analysis.passes import cpu_passes, cuda_passes
from tests.analysis.studies import dispatch_series, record, save


def _cells(table: Any, *names: str) -> dict[str, str]:
    (line,) = (line for line in table.rows if line[: len(names)] == names)
    return dict(zip(table.titles, line, strict=True))


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return derived(save(cuda_passes(), tmp_path_factory.mktemp("gpu")))


OF_INFERENCE = [kind for kind in pictures.OF_SECTION if kind.name != "parts"]


@pytest.mark.parametrize("kind", OF_INFERENCE, ids=lambda kind: kind.name)
def test_a_table_has_the_rows_of_its_figure(kind: pictures.Kind, gpu: Any) -> None:
    figure, table = kind.draw(gpu), kind.numbers(gpu)
    assert figure is not None
    drawn = [
        text.get_text().split()[0]
        for axes in figure.axes for text in axes.texts if text.get_label() == "name"
    ]  # fmt: skip
    assert [line[0] for line in table.rows] == drawn
    assert all(len(line) == len(table.titles) for line in table.rows)


def test_parts_of_a_call_on_a_gpu_are_told(gpu: Any) -> None:
    cells = _cells(plotted.overheads(gpu), "eager", "fp32")
    assert cells["host"] == "120 µs"
    assert cells["dispatch"] == "70.0 µs"
    assert cells["launching"] == "50.0 µs"
    assert cells["launches"] == "42 launches"
    assert cells["idle"] == "71 %"


def test_parts_of_memory_add_up_to_the_peak(gpu: Any) -> None:
    cells = _cells(plotted.memories(gpu), "cuda-graph", "fp32")
    assert cells["graph pool, free parts kept"] == "20.0 MiB"
    assert cells["in all"] == "86.6 MiB"
    assert cells["saved for backward"] == "0 B"


def test_work_is_beside_that_of_eager(gpu: Any) -> None:
    cells = _cells(plotted.fusions(gpu), "compile", "fp32")
    assert (cells["work"], cells["eager's work"]) == ("25.0 µs", "40.0 µs")
    assert (cells["kernels"], cells["eager's kernels"]) == ("9", "42")


def test_a_step_is_told_with_what_it_takes_off_and_the_floor_without(tmp_path: Path) -> None:
    table = plotted.waterfalls(derived(save(cpu_passes(), tmp_path)))
    assert _cells(table, "eager", "fp32")["less than the step before [95 %]"] == "–"
    assert _cells(table, "compile", "fp32")["less than the step before [95 %]"].startswith("143 µs")
    assert _cells(table, "floor", "fp32")["time of a call [95 %]"] == "67.0 µs (memory)"


def test_of_a_series_both_clocks_are_told_at_every_size(tmp_path: Path) -> None:
    (chain,) = series(derived(save(dispatch_series((4, 8, 16)), tmp_path)))
    table = plotted.sizes(chain)
    assert table.titles == ("mode", "clock", "ops 4", "ops 8", "ops 16")
    assert _cells(table, "compile", "dispatch")["ops 4"] == "12.2 µs"
    assert plotted.slopes(chain).rows[0][0] == "compile"


def test_a_row_without_a_tail_has_none(tmp_path: Path) -> None:
    rows = derived(save([record(latency_calls_s=None), record("eager", speedup=1.0)], tmp_path))
    assert _cells(plotted.latencies(rows), "compile", "fp32")["p95"] == "–"
