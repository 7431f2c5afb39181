"""Parts of a step: bars have the planted durations, and the caption decides on intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from modescope.analysis.figures import step_parts
from modescope.analysis.format import style
from modescope.bench.records.results import Record
from tests.helpers.drawings import (
    US,
    bars,
    names,
    numbers,
    only_axes,
    rectangles,
    rows_of,
)
from tests.helpers.pass_columns import cpu_training
from tests.helpers.studies import not_measured, record, training


def _axes(folder: Path, *records: Record) -> Axes:
    return only_axes(step_parts.draw(rows_of(folder, *records)))


def _heights(axes: Axes) -> list[float]:
    return [round(bar.get_y() + bar.get_height() / 2, 3) for bar in rectangles(axes)]


def test_parts_are_stacked_over_the_undivided_step(tmp_path: Path) -> None:
    axes = _axes(
        tmp_path,
        training("amp", 1000 * US, 1.0, (300 * US, 400 * US, 200 * US, 50 * US)),
        training("eager", 1000 * US, 1.0, (400 * US, 600 * US, 200 * US)),
    )
    assert [name.split()[0] for name in names(axes)] == ["eager", "amp"]
    assert bars(axes, US) == [
        (0, 400), (400, 600), (1000, 200), (0, 1000),
        (0, 300), (300, 400), (700, 200), (900, 50), (0, 1000),
    ]  # fmt: skip
    upper, lower = _heights(axes)[0], _heights(axes)[3]
    assert upper < 0 < lower  # the first row is at 0, and y points downwards
    assert numbers(axes) == [
        "step 1.00 ms, parts 120 % of it", "step 1.00 ms, parts 95 % of it",
    ]  # fmt: skip


def test_a_step_without_known_parts_is_shown_undivided(tmp_path: Path) -> None:
    graph = training("cuda-graph", 500 * US, 2.0, parts_s=None)
    axes = _axes(tmp_path, training("eager", 1000 * US, 1.0), graph)
    assert bars(axes, US)[-1] == (0, 500)
    assert _heights(axes)[-1] > 1  # the place of the lower bar
    assert numbers(axes)[-1] == "step 500 µs, not split"


def test_without_any_parts_there_is_no_figure(tmp_path: Path) -> None:
    graph = rows_of(tmp_path / "graph", training("cuda-graph", parts_s=None))
    assert step_parts.draw(graph) is None
    inference = rows_of(tmp_path / "inference", record("eager"), record("compile"))
    assert step_parts.draw(inference) is None


def test_colours_of_parts_differ_from_those_of_modes(tmp_path: Path) -> None:
    drawn = {to_hex(bar.get_facecolor()) for bar in rectangles(_axes(tmp_path, *cpu_training()))}
    assert drawn.isdisjoint(family.colour for family in style.FAMILIES)


def test_without_known_parts_there_is_no_caption(tmp_path: Path) -> None:
    assert step_parts.caption(rows_of(tmp_path / "a", training("cuda-graph", parts_s=None))) is None
    wrong = not_measured("compile", "wrong_result", "why", phase="train")
    assert step_parts.caption(rows_of(tmp_path / "b", wrong)) is None
    assert step_parts.caption(rows_of(tmp_path / "c", training("eager", in_effect=False))) is None


def test_the_table_has_the_numbers_of_both_bars(tmp_path: Path) -> None:
    step = training("eager", 1000 * US, 1.0, (400 * US, 600 * US, 200 * US), spread=0)
    graph = training("cuda-graph", 500 * US, 2.0, parts_s=None, spread=0)
    table = step_parts.table(rows_of(tmp_path, step, graph))
    eager, undivided = (dict(zip(table.titles, line, strict=True)) for line in table.rows)
    total = "sum of parts ÷ step [95 %]"
    assert eager["backward ÷ step [95 %]"].startswith("60.0 % [59.9, 60.1]")
    assert eager[total] == "120.0 % [119.8, 120.2]"
    assert "GradScaler ÷ step [95 %]" not in eager
    assert undivided["backward ÷ step [95 %]"] == undivided[total] == "–"
    assert undivided["whole step [95 %]"].startswith("500")


SURE: dict[str, Any] = {"spread": 0.002}


def _gains(folder: Path, *records: Record) -> dict[str, Any]:
    gains = step_parts.gains_over_eager(rows_of(folder, *records))
    return {one.row["mode"]: one.parts for one in gains}


EAGER = training("eager", 1200 * US, 1.0, **SURE)


def test_the_speedup_of_a_part_follows_from_its_share_and_the_speedup(tmp_path: Path) -> None:
    """Its process was half as fast as eager's, and so was the baseline of its own pair."""
    compiled = training("compile", 1600 * US, 1.5, (400 * US, 800 * US, 400 * US), **SURE)
    parts = _gains(tmp_path, EAGER, compiled)["compile"]
    planted = {"forward": 2.0, "backward": 1.5, "optimizer": 1.0}
    for name, gain in planted.items():
        assert parts[name].value == pytest.approx(gain, rel=1e-3)
        assert parts[name].low < gain < parts[name].high
    assert parts["scaler"] is None


def test_the_interval_of_a_part_is_the_worst_case_of_its_terms(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, EAGER, training("compile", 800 * US, 1.5, **SURE)).set_index("mode")
    eager, row = rows.loc["eager"], rows.loc["compile"]
    (one,) = step_parts.gains_over_eager(rows.reset_index())
    low = row["speedup_ci_low"] / eager["speedup_ci_high"]
    low *= eager["forward_share_ci_low"] / row["forward_share_ci_high"]
    gain = one.parts["forward"]
    assert gain is not None
    assert gain.low == pytest.approx(low)


def test_amp_is_compared_with_eager_of_its_baseline(tmp_path: Path) -> None:
    amp = training("amp", 2400 * US, 0.5, (400 * US, 1600 * US, 400 * US), **SURE)
    other = training("eager", 600 * US, 1.0, dtype="bf16", baseline_dtype="bf16", **SURE)
    parts = _gains(tmp_path, EAGER, other, amp)["amp"]
    assert parts["forward"].value == pytest.approx(1.0, rel=1e-3)
    assert parts["backward"].value == pytest.approx(600 / 1600, rel=1e-3)


def test_the_reference_is_a_trusted_step_of_the_same_options(tmp_path: Path) -> None:
    differing: list[dict[str, Any]] = [
        {"optimizer": "adamw"},
        {"training": '{"checkpoint":"model"}'},
        {"shape": '{"batch":5}'},
        {"grad": "no_grad"},
        {"baseline_mode": "no_grad"},
        {"baseline_dtype": "bf16", "dtype": "bf16"},
        {"in_effect": False},
        {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"},
        {"rounds": 5},
        {"forward_rounds_s": None},
    ]
    records = [EAGER, training("compile", 800 * US, 1.5, **SURE)]
    for n, each in enumerate(differing):
        model: dict[str, Any] = {"model": f"model {n}", **SURE}
        records += [training("eager", 1200 * US, 1.0, **(model | each)),
                    training("compile", 800 * US, 1.5, **model)]  # fmt: skip
    gains = step_parts.gains_over_eager(rows_of(tmp_path, *records))
    assert [one.row["model"] for one in gains] == ["transformer"]
