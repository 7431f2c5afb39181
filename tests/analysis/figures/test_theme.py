"""Every figure: equal bytes, the page's colours, and ticks that do not touch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.derive.select import FAMILY, SECTION, split_table
from modescope.analysis.derive.series import grids, series
from modescope.analysis.figures import theme
from modescope.analysis.figures.registry import OF_GRIDS, OF_SECTION, OF_SERIES, pictures
from modescope.analysis.format import style
from modescope.analysis.metrics import derived
from tests.helpers.pass_columns import cpu_passes
from tests.helpers.studies import batch_series, save


def _topics(rows: pd.DataFrame) -> Iterator[tuple[Any, Any]]:
    families = list(split_table(rows, FAMILY))
    yield from ((OF_SECTION, section) for section in list(split_table(rows, SECTION))[:2])
    yield from ((OF_GRIDS, grids(family)) for family in families)
    yield from ((OF_SERIES, found) for family in families for found in series(family))


def test_equal_figures_have_equal_bytes_and_ids_by_their_name(tmp_path: Path) -> None:
    """And the text colour of the page."""
    rows = derived(save([*cpu_passes(), *batch_series()], tmp_path))
    for kinds, topic in _topics(rows):
        first, second, named = (list(pictures(kinds, topic, name)) for name in ("1", "1", "2"))
        assert [one.svg for one in first] == [one.svg for one in second]
        for one, other in zip(first, named, strict=True):
            ids, others = (set(re.findall(r'\bid="([^"]+)"', each.inline)) for each in (one, other))
            assert ids
            assert not ids & others
            assert one.inline.startswith("<svg")
            assert "currentColor" in one.inline
            assert not [
                text
                for text in (style.INK, "://", '<g id="', 'height="100%" fill="#ffffff"')
                if text in one.inline
            ]
            assert 'fill="#ffffff"' in one.svg[: one.svg.index("<g")]


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
