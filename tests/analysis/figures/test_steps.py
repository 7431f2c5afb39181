"""The waterfall from eager to a mode: where its bars begin and end, and what they look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import same_color
from matplotlib.patches import Rectangle

from modescope.analysis.figures import steps
from modescope.analysis.figures.steps import STEPS
from modescope.analysis.format import style
from modescope.bench.records.results import Record
from tests.helpers.drawings import names, numbers, panels, rows_of
from tests.helpers.studies import record, stepped

FAST = {"eager": 100e-6, "autograd": 80e-6, "python": 75e-6, "code": 30e-6, "entry": 60e-6,
        "guards": 60.1e-6, "again": 61e-6}  # fmt: skip


def of(latencies_s: dict[str, float], mode: str = "compile", **columns: Any) -> Record:
    """A compiled row with these steps."""
    mode_s = latencies_s["guards"]
    speedup = latencies_s["eager"] / mode_s
    return record(mode, mode_s, speedup, **stepped(spread=1e-4, **latencies_s), **columns)


def drawn(folder: Path, *records: Record) -> dict[str, Axes]:
    """The panels of the figure of these records, by their titles."""
    return panels(STEPS.draw(rows_of(folder, *records)))


def rectangles(axes: Axes) -> list[Rectangle]:
    """All bars and bands of a panel."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def steps_of(axes: Axes) -> list[tuple[str, float, float, Any]]:
    """Name, begin, end and colour of each bar from the top, in % of eager's call; no bands."""
    labels = names(axes)
    found = [bar for bar in rectangles(axes) if bar.get_alpha() is None]
    return sorted(
        (
            (labels[round(bar.get_y() + bar.get_height() / 2)], round(bar.get_x(), 0),
             round(bar.get_x() + bar.get_width(), 0), bar.get_facecolor())
            for bar in found
        ),
        key=lambda bar: labels.index(bar[0]),
    )  # fmt: skip


def test_each_step_begins_where_the_last_ended(tmp_path: Path) -> None:
    (axes,) = drawn(tmp_path, record("eager", speedup=1.0), of(FAST)).values()
    found = steps_of(axes)
    assert [(begin, end) for _, begin, end, _ in found] == [
        (0, 100), (100, 80), (80, 75), (75, 30), (30, 60), (60, 60), (0, 60)
    ]  # fmt: skip
    assert [name for name, *_ in found] == names(axes)
    assert (names(axes)[0], names(axes)[-1]) == ("eager", "compile")


def test_saving_adding_and_what_cannot_be_told_differ_by_colour(tmp_path: Path) -> None:
    (axes,) = drawn(tmp_path, of(FAST)).values()
    _, autograd, python, code, entry, guards, _ = (colour for *_, colour in steps_of(axes))
    assert autograd == python == code
    assert len({code, entry, guards}) == 3
    assert same_color(guards, style.FADED)


def test_a_step_is_grey_up_to_the_control(tmp_path: Path) -> None:
    """The mode, compiled again, takes 10 % of eager's call more, and Python is 5 %."""
    (axes,) = drawn(tmp_path, of({**FAST, "again": 70e-6})).values()
    grey = [name for name, *_, colour in steps_of(axes) if same_color(colour, style.FADED)]
    assert grey == [names(axes)[2], names(axes)[5]]
    bands = [bar for bar in rectangles(axes) if bar.get_alpha() is not None]
    assert [round(band.get_width(), 0) for band in bands] == [20] * 5
    assert [round(band.get_x() + 10, 0) for band in bands] == [100, 80, 75, 30, 60]


def test_numbers_are_shares_of_eagers_call(tmp_path: Path) -> None:
    (axes,) = drawn(tmp_path, of(FAST)).values()
    texts = numbers(axes)
    assert [round(float(text.split()[0])) for text in texts] == [100, 20, 5, 45, 30, 0, 60]
    assert [text.split()[-1] for text in texts[1:5]] == ["saved", "saved", "saved", "added"]


def test_whiskers_are_the_intervals(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, of(FAST))
    (axes,) = panels(STEPS.draw(rows)).values()
    lines = [np.ravel(line.get_xdata()).tolist() for line in axes.lines]
    entry = rows.iloc[0]["step_entry"]
    code_end = 100 * (
        1 - sum(rows.iloc[0][f"step_{n}"].value for n in ("autograd", "python", "code"))
    )
    expected = [code_end - 100 * entry.low, code_end - 100 * entry.high]
    assert any(line == pytest.approx(expected) for line in lines)
    gap = rows.iloc[0]["steps_gap"]
    whole = [100 - 100 * gap.low, 100 - 100 * gap.high]
    assert any(line == pytest.approx(whole) for line in lines)


def test_fusion_is_a_part_of_the_compilers_code(tmp_path: Path) -> None:
    (axes,) = drawn(tmp_path, of({**FAST, "unfused": 50e-6})).values()
    code, fusion, entry = steps_of(axes)[3:6]
    assert (code[1:3], fusion[1:3], entry[1:3]) == ((75, 30), (50, 30), (30, 60))


def test_a_step_that_made_torch_run_other_operators_is_named_by_them(tmp_path: Path) -> None:
    unlike = {**stepped(**FAST), "steps_unlike": '{"python": "with aten.mul"}'}
    made = [of(FAST), record("compile", 60e-6, 1.6, dtype="bf16", **unlike)]
    plain, other = (names(axes) for axes in drawn(tmp_path, *made).values())
    assert [place for place, name in enumerate(other) if name != plain[place]] == [2]
    assert other[2].startswith("other operators")


def test_rows_beyond_the_limit_are_those_of_the_smallest_gap(tmp_path: Path) -> None:
    made = [
        of({**FAST, "guards": (60 + 3 * place) * 1e-6}, f"compile[options.a={place}]")
        for place in range(steps.MOST_PANELS + 2)
    ]
    rows = rows_of(tmp_path, *made)
    figure = STEPS.draw(rows)
    assert figure is not None
    last = [names(axes)[-1] for axes in figure.axes]
    assert last == [f"compile[options.a={place}]" for place in range(steps.MOST_PANELS)]
    assert "2 more" in figure.get_suptitle()
    assert len(STEPS.table(rows).rows) == len(made)


def test_the_table_has_the_shares_the_control_the_rest_and_the_best_change(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        of({**FAST, "again": 62e-6, "keep_tensor_guards": 40e-6, "static": 50e-6}),
        of(FAST, dtype="bf16"),
    )
    table = STEPS.table(rows)
    first, second = (dict(zip(table.titles, line, strict=True)) for line in table.rows)
    assert table.titles == (
        "mode", "dtype", "autograd", "python", "code", "entry", "guards", "gap",
        "up to the control", "rest", "first", "best change tried",
    )  # fmt: skip
    assert [first[name].split()[0] for name in table.titles[2:8]] == [
        "20.0", "5.0", "45.0", "-30.0", "-0.1", "39.9"
    ]  # fmt: skip
    assert (first["up to the control"], first["first"]) == ("1.9 %", "code")
    assert first["best change tried"].startswith("keep_tensor_guards 1.50")
    assert second["best change tried"] == "–"


def test_without_steps_in_a_row_that_is_trusted_nothing_is_drawn(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, record("compile"), of(FAST, "amp-compile", in_effect=False))
    assert STEPS.draw(rows) is None
