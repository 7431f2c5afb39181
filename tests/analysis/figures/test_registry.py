"""Properties that every figure has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex

from modescope.analysis.figures import compiling, fusion, memory, overhead, step_parts, waterfall
from modescope.analysis.figures.draw.canvas import inline, svg
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.registry import OF_SECTION
from modescope.analysis.format import style
from modescope.bench.records.results import Record
from tests.helpers import pass_columns
from tests.helpers.drawings import names, only_axes, rectangles, rows_of
from tests.helpers.pass_columns import cpu_passes, cpu_training, cuda_passes, cuda_training
from tests.helpers.studies import cpu_clocks, not_measured, record, training

NOT_OF_CALLS = (step_parts.FIGURE, compiling.FIGURE)
OF_CALLS = [kind for kind in OF_SECTION if kind not in NOT_OF_CALLS]
SPOILED: list[dict[str, Any]] = [
    {"in_effect": False},
    {"in_effect": None},
    {"status": "wrong_result", "reason": "why"},
    {"budget": "smoke"},
    {"rounds": 5},
]


def _name(kind: FigureKind[Any]) -> str:
    return kind.name


def _modes(kind: FigureKind[Any], folder: Path, *records: Record) -> set[str] | None:
    """The modes in a figure; None without a figure."""
    figure = kind.draw(rows_of(folder, *records))
    if figure is None:
        return None
    return {name.split()[0] for axes in figure.axes for name in names(axes)}


@pytest.mark.full
@pytest.mark.parametrize("kind", OF_CALLS, ids=_name)
@pytest.mark.parametrize("spoiled", SPOILED, ids=str)
def test_untrusted_rows_are_not_charted(
    tmp_path: Path, kind: FigureKind[Any], spoiled: dict[str, Any]
) -> None:
    planted = (
        pass_columns.memory(1000, 300) | pass_columns.profiled(9, 2e-4) | cpu_clocks(3e-4, 1e-4)
    )
    good = [record(mode, 3e-4, 1.0, **planted) for mode in ("eager", "inference_mode", "compile")]
    failed = not_measured("amp", "failed", "why", dtype="fp32")
    bad = record("no_grad", 3e-4, 1.0, **(planted | spoiled))
    modes = _modes(kind, tmp_path / "some", *good, failed, bad)
    assert modes is not None
    assert "compile" in modes
    assert modes <= {"eager", "inference_mode", "compile"}
    alone = [record(mode, 3e-4, 1.0, **(planted | spoiled)) for mode in ("eager", "compile")]
    assert _modes(kind, tmp_path / "none", *alone) is None


@pytest.mark.full
@pytest.mark.parametrize("kind", [step_parts.FIGURE, memory.FIGURE], ids=_name)
@pytest.mark.parametrize("spoiled", SPOILED, ids=str)
def test_untrusted_training_steps_are_not_charted(
    tmp_path: Path, kind: FigureKind[Any], spoiled: dict[str, Any]
) -> None:
    held = pass_columns.trained(1000, 300, 1100)
    good = [training(mode, **held) for mode in ("eager", "compile")]
    bad = training("amp", **(held | spoiled))
    assert _modes(kind, tmp_path / "some", *good, bad) == {"eager", "compile"}
    alone = [training(mode, **(held | spoiled)) for mode in ("eager", "compile")]
    assert _modes(kind, tmp_path / "none", *alone) is None


STUDIES = [
    *((kind, study) for kind in OF_CALLS for study in (cpu_passes, cuda_passes)),
    *((step_parts.FIGURE, study) for study in (cpu_training, cuda_training)),
]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "study"), STUDIES)
def test_equal_figures_have_equal_bytes_and_the_pages_text_colour(
    tmp_path: Path, kind: FigureKind[Any], study: Callable[[], list[Record]]
) -> None:
    rows = rows_of(tmp_path, *study())
    figures = [kind.draw(rows) for _ in range(2)]
    first, second = (inline(svg(figure, "one")) for figure in figures if figure is not None)
    assert first == second
    assert first.startswith("<svg")
    assert "currentColor" in first
    for foreign in (style.INK, "://", '<g id="'):
        assert foreign not in first


@pytest.mark.parametrize("module", [fusion, memory, overhead, waterfall])
def test_only_figures_of_modes_use_the_colours_of_families(tmp_path: Path, module: Any) -> None:
    figure = module.draw(rows_of(tmp_path, *cuda_passes()))
    drawn = svg(figure, "one")
    coloured = {family.colour for family in style.FAMILIES if family.colour in drawn}
    assert {style.COMPILE.colour, style.COMPILE_GRAPHS.colour} <= coloured
    bars = {to_hex(bar.get_facecolor()) for bar in rectangles(only_axes(figure))}
    if module in (overhead, memory):  # parts of a call, not modes
        assert bars.isdisjoint(family.colour for family in style.FAMILIES)


@pytest.mark.parametrize("kind", OF_CALLS, ids=_name)
def test_a_table_has_the_rows_of_its_figure(tmp_path: Path, kind: FigureKind[Any]) -> None:
    rows = rows_of(tmp_path, *cuda_passes())
    figure, table = kind.draw(rows), kind.table(rows)
    assert figure is not None
    drawn = [name.split()[0] for axes in figure.axes for name in names(axes)]
    assert [line[0] for line in table.rows] == drawn
    assert all(len(line) == len(table.titles) for line in table.rows)
