from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import plots, style
from analysis.metrics import derived
from bench.records import Record
from tests.analysis.studies import MODES, cpu_sweep, not_measured, record, save


def _names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def _forest(records: Iterable[Record], folder: Path) -> Figure:
    figure = plots.forest(derived(save(records, folder)))
    assert figure is not None
    return figure


def test_a_panel_per_precision_with_rows_by_family(tmp_path: Path) -> None:
    bf16, fp32 = _forest(cpu_sweep(), tmp_path).axes
    assert _names(bf16) == ["amp", "amp-compile"]
    assert _names(fp32) == ["eager", "no_grad", "inference_mode", "compile"]


def test_what_does_not_count_is_not_charted(tmp_path: Path) -> None:
    hidden = [
        record("no_grad", budget="smoke"),
        record("reduce-overhead", in_effect=False),
        record("max-autotune", in_effect=None),
        record("inference_mode", rounds=5),
        not_measured("amp", "failed", "why", dtype="fp32"),
        record("cuda-graph", status="wrong_result", reason="why"),
    ]
    (axes,) = _forest([record("compile"), *hidden], tmp_path / "some").axes
    assert _names(axes) == ["compile"]
    assert plots.forest(derived(save(hidden, tmp_path / "none"))) is None


def test_markers_stand_at_the_speedup_and_fill_says_decided(tmp_path: Path) -> None:
    figure = _forest([record("eager", speedup=1.0), record("compile", speedup=2.0)], tmp_path)
    points = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", None, "")]
    assert [np.ravel(point.get_xdata()) for point in points] == pytest.approx([1.0, 2.0])
    assert [point.get_markerfacecolor() == "none" for point in points] == [True, False]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts[0] == "eager fp32"
    assert texts[1].endswith("equivalent")
    assert texts[2].endswith("faster")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.4, 4.5, [0.5, 1, 2, 4]),
        (0.95, 1.05, [0.96, 0.98, 1, 1.02, 1.04]),
        (0.5, 1.3, [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3]),
    ],
)
def test_ticks_are_plain_numbers_that_include_one(
    low: float, high: float, expected: list[float]
) -> None:
    assert plots._ticks(low, high) == pytest.approx(expected)


def test_a_figure_is_limited_and_says_what_is_left_out(tmp_path: Path) -> None:
    many = [record(dtype=dtype, case_id=f"{dtype}{n}") for dtype in ("bf16", "fp32") for n in
            range(40)]  # fmt: skip
    figure = _forest(many, tmp_path)
    assert sum(len(_names(axes)) for axes in figure.axes) == plots.MOST_ROWS
    assert any("20 more rows" in text.get_text() for text in figure.texts)


def test_equal_figures_have_equal_bytes(tmp_path: Path) -> None:
    rows = derived(save(cpu_sweep(), tmp_path))
    first, second = (plots.forest(rows) for _ in range(2))
    assert first is not None
    assert second is not None
    assert plots.svg(first, inline=False) == plots.svg(second, inline=False)


def test_inline_figures_take_the_colour_of_the_page(tmp_path: Path) -> None:
    text = plots.svg(_forest(cpu_sweep(), tmp_path), inline=True)
    assert text.startswith("<svg")
    assert "currentColor" in text
    assert style.INK not in text
    assert "://" not in text
    assert '<g id="' not in text


def test_every_mode_has_a_look_of_its_own(tmp_path: Path) -> None:
    rows = [
        {"mode": mode, "autocast": autocast, "compile": compiled, "graph": graph}
        for mode, (_, autocast, compiled, graph) in MODES.items()
    ]
    assert len({style.marker(row) for row in rows}) == len(MODES)
    found = {row["mode"]: style.family(row).name for row in rows}
    assert found["no_grad"] == found["inference_mode"] == "eager"
    assert found["amp-compile"] == found["max-autotune-no-cudagraphs"] == "compile"
    assert found["reduce-overhead"] == found["compile-cuda-graph"] == "compile + graphs"
    assert found["cuda-graph"] == "cuda-graph"


def test_an_overridden_preset_is_shown_as_what_it_is() -> None:
    row = {"mode": "eager[autocast=true]", "autocast": True, "compile": "none", "graph": False}
    assert style.family(row) is style.AMP
    assert style.marker(row) == style.MARKERS["eager"]
