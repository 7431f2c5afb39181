"""Every figure: equal bytes, the page's colours, and no text that is cut or lies on another."""

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
from matplotlib.transforms import Bbox

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.select import FAMILY, SECTION, parts
from modescope.analysis.derive.series import grids, series
from modescope.analysis.figures import theme
from modescope.analysis.figures.registry import OF_GRIDS, OF_SECTION, OF_SERIES, pictures
from modescope.analysis.format import style
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

LARGEST = 110_000  # bytes of a figure: a page holds dozens


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
    "batches": lambda: [*batch_series(), *batch_series(dtype="bf16")],
    "training": lambda: [
        *(one for batch in (1, 8, 64) for one in cpu_training(batch)),
        *cuda_training(),
    ],
    "many batches": lambda: batch_series([2**power for power in range(13)]),
    "long": lambda: list(_long_names()),
}


def _topics(rows: pd.DataFrame) -> Iterator[tuple[Any, Any]]:
    families = list(parts(rows, FAMILY))
    yield from ((OF_SECTION, section) for section in list(parts(rows, SECTION))[:3])
    yield from ((OF_GRIDS, grids(family)) for family in families)
    yield from ((OF_SERIES, found) for family in families for found in series(family))


@pytest.mark.full
@pytest.mark.parametrize("study", STUDIES)
def test_every_text_is_within_its_figure_and_overlaps_no_other(tmp_path: Path, study: str) -> None:
    rows = derived(save(STUDIES[study](), tmp_path))
    figures = [kind.draw(topic) for kinds, topic in _topics(rows) for kind in kinds]
    for figure in filter(None, figures):
        boxes = [text.get_window_extent() for text in _texts(figure)]
        page = figure.bbox.padded(1)
        assert Bbox.union([page, *boxes]).bounds == page.bounds
        letters = [box.padded(-0.75) for box in boxes]  # without the empty room around them
        assert not [pair for pair in combinations(letters, 2) if Bbox.overlaps(*pair)]
        assert figure.get_figwidth() == theme.WIDTH
        assert len(theme.svg(figure, "one")) < LARGEST


def _texts(figure: Figure) -> list[Text]:
    """The texts that are drawn, without tick labels beyond the ends of their axis."""
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    beyond = {label for axes in figure.axes for label in _beyond(axes)}
    return [
        text for text in figure.findobj(Text)
        if text.get_text() and text.get_visible() and text not in beyond
    ]  # fmt: skip


def _beyond(axes: Axes) -> Iterator[Text]:
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = axis.get_major_ticks()
        yield from (tick.label1 for tick in ticks if not low <= tick.get_loc() <= high)


@pytest.mark.parametrize(
    "study", [cpu_passes, pytest.param(cuda_training, marks=pytest.mark.full), batch_series]
)
def test_equal_figures_have_equal_bytes_and_the_pages_text_colour(
    tmp_path: Path, study: Callable[[], Iterable[Record]]
) -> None:
    rows = derived(save(study(), tmp_path))
    for kinds, topic in _topics(rows):
        first, second = (list(pictures(kinds, topic, "1")) for _ in range(2))
        assert [one.svg for one in first] == [one.svg for one in second]
        for one in first:
            assert one.inline.startswith("<svg")
            assert "currentColor" in one.inline
            assert not [
                text
                for text in (style.INK, "://", '<g id="', 'height="100%" fill="#ffffff"')
                if text in one.inline
            ]
            assert 'fill="#ffffff"' in one.svg[: one.svg.index("<g")]


def test_patterns_of_each_figure_have_unique_ids(tmp_path: Path) -> None:
    (section,) = parts(derived(save(cpu_passes(), tmp_path)), SECTION)
    for named in zip(*(pictures(OF_SECTION, section, name) for name in ("1", "2")), strict=True):
        one, other = (set(re.findall(r'\bid="([^"]+)"', str(each.inline))) for each in named)
        assert one
        assert not one & other


def test_ticks_are_the_densest_whose_labels_do_not_touch() -> None:
    def ticks(low: float, high: float, inches: float = 3.0) -> list[float]:
        axes = Figure().subplots()
        axes.set(xscale="log", xlim=(low, high))
        theme.log_ticks(axes.xaxis, inches, "{:g}×".format, [*theme.BINARY, *theme.EVEN])
        return [float(tick) for tick in axes.get_xticks()]

    assert ticks(0.4, 4.5) == [0.5, 1, 2, 4]
    assert ticks(0.1, 20) == [0.25, 1, 4, 16]
    assert ticks(0.97, 1.05) == [0.98, 1, 1.02, 1.04]
    assert ticks(0.1, 20, 6.0) == [0.125, 0.25, 0.5, 1, 2, 4, 8, 16]
