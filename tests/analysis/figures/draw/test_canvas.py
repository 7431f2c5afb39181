"""No text of a figure is clipped or overlaps another, with names of any length; files are small."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import FAMILY, SECTION, parts
from modescope.analysis.derive.series import grids, series
from modescope.analysis.figures.draw import canvas
from modescope.analysis.figures.draw.canvas import inline, on_paper, svg, text_width, wrapped
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.registry import OF_GRIDS, OF_SECTION, OF_SERIES
from modescope.bench.records.results import Record
from tests.helpers.pass_columns import (
    cpu_passes,
    cpu_training,
    cuda_passes,
    cuda_training,
    memory,
    profiled,
)
from tests.helpers.studies import (
    MODES,
    batch_series,
    cpu_clocks,
    cuda_clocks,
    cuda_series,
    dispatch_series,
    record,
    save,
)

LARGEST = 60_000  # bytes of a figure: a page holds dozens


def _long_names() -> Iterator[Record]:
    """Every mode, of a model and at a shape that need more than a line."""
    long: dict[str, Any] = {
        "model": f"custom:{'a_package_with_a_long_name.' * 3}and_a_module:build_the_model",
        "model_args": '{"hidden_layers":12,"activation":"gelu_with_tanh_approximation"}',
    }
    for number, mode in enumerate(MODES):
        clocks = cuda_clocks(1e-3, 12.34e-3, 0.5e-3) if number % 2 else cpu_clocks(1e-3, 0.5e-3)
        passes = profiled(12_345, 1e-3, launches=54_321) | memory(123_456_789, 12_345_678, 1_234)
        override = "[autocast=true,compile=max-autotune,grad=inference_mode,graph=true]"
        yield record(f"{mode}{override}", 1e-3, 1 + number / 7, **(clocks | passes | long))


STUDIES: dict[str, Callable[[], Iterable[Record]]] = {
    "cpu": lambda: [*cpu_passes(), *dispatch_series()],
    "cuda": lambda: [*cuda_passes(), *cuda_series("ops")],
    "batches": batch_series,
    "training": lambda: [
        *(one for batch in (1, 8, 64) for one in cpu_training(batch)),
        *cuda_training(),
    ],
    "many batches": lambda: batch_series([2**power for power in range(13)]),
    "long": lambda: list(_long_names()),
}


def _figures(rows: pd.DataFrame) -> Iterator[Figure]:
    sections = list(parts(rows, SECTION))[:3]
    drawn: list[tuple[Iterable[FigureKind[Any]], Any]] = [
        *((OF_SECTION, section) for section in sections),
        *((OF_GRIDS, grids(family)) for family in parts(rows, FAMILY)),
        *((OF_SERIES, found) for family in parts(rows, FAMILY) for found in series(family)),
    ]
    for kinds, subject in drawn:
        for kind in kinds:
            if (figure := kind.draw(subject)) is not None:
                yield figure


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.full] * (name != "cpu")) for name in STUDIES],
)
def figures(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Figure]:
    folder = tmp_path_factory.mktemp("study")
    found = list(_figures(derived(save(STUDIES[request.param](), folder))))
    assert found
    return found


def _texts(figure: Figure) -> list[Text]:
    """The texts that are drawn, without tick labels beyond the ends of their axis."""
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    beyond = {label for axes in figure.axes for label in _beyond(axes)}
    return [
        text for text in figure.findobj(Text)
        if text.get_text() and text.get_visible() and text not in beyond
    ]  # fmt: skip


def _beyond(axes: Axes) -> Iterator[Text]:
    for labels, places, (low, high) in (
        (axes.get_xticklabels(), axes.get_xticks(), sorted(axes.get_xlim())),
        (axes.get_yticklabels(), axes.get_yticks(), sorted(axes.get_ylim())),
    ):
        named = zip(labels, places, strict=True)
        yield from (label for label, place in named if not low <= place <= high)


def _box(text: Text) -> tuple[float, float, float, float]:
    box = text.get_window_extent()
    return box.x0, box.y0, box.x1, box.y1


def _overlap(one: Text, other: Text) -> bool:
    (left, low, right, high), (left_2, low_2, right_2, high_2) = _box(one), _box(other)
    slack = 1.5  # pixels of empty room around letters
    return (
        min(right, right_2) - max(left, left_2) > slack
        and min(high, high_2) - max(low, low_2) > slack
    )


@pytest.mark.full
def test_every_text_is_within_its_figure_and_overlaps_no_other(figures: list[Figure]) -> None:
    for figure in figures:
        texts = _texts(figure)
        width, height = figure.bbox.width, figure.bbox.height
        for text in texts:
            left, low, right, high = _box(text)
            assert left >= -1, text
            assert low >= -1, text
            assert right <= width + 1, text
            assert high <= height + 1, text
        clashes = [pair for pair in combinations(texts, 2) if _overlap(*pair)]
        assert clashes == []


def test_figures_are_as_wide_as_a_phone_and_small(figures: list[Figure]) -> None:
    for figure in figures:
        assert figure.get_figwidth() == canvas.WIDTH
        assert len(svg(figure, "one")) < LARGEST


def test_patterns_of_each_figure_have_unique_ids(tmp_path: Path) -> None:
    for figure in _figures(derived(save(cpu_passes(), tmp_path))):
        one, other = (
            set(re.findall(r'\bid="([^"]+)"', inline(svg(figure, name)))) for name in ("a", "b")
        )
        assert one
        assert not one & other


def test_a_figure_file_has_a_white_background_and_an_inline_figure_none(tmp_path: Path) -> None:
    (figure, *_) = _figures(derived(save([record()], tmp_path)))
    drawn = svg(figure, "one")
    assert 'fill="#ffffff"' in on_paper(drawn)
    assert "#ffffff" not in inline(drawn)
    assert on_paper(drawn).index("<rect") < on_paper(drawn).index("<g")


def test_text_is_wrapped_at_the_figures_width() -> None:
    lines = wrapped(f"{'word ' * 40}\nnext", 8)
    assert len(lines) > 2
    assert lines[-1] == "next"
    assert all(text_width(line, 8) <= canvas.WIDTH for line in lines)
    assert wrapped("", 8) == []
