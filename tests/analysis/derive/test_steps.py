"""Which measured steps count, which comes first, and which change is worth to be tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive import steps
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.gap_steps import LADDER, TRIALS
from modescope.bench.stats.estimates import Estimate
from tests.helpers.derivations import rows_of_each, table_of
from tests.helpers.rows import row_with
from tests.helpers.studies import record, save, stepped

UNKNOWN: dict[str, Any] = {
    "steps_unlike": None,
    "steps_gap": None,
    "steps_control": None,
    **{f"step_{kind.name}": None for kind in LADDER},
    **{f"with_{trial.name}": None for trial in TRIALS},
}


def sure(value: float, width: float = 0.01) -> Estimate:
    """A value with an interval of twice `width`."""
    return Estimate(value, value - width, value + width)


def measured(**columns: Any) -> Row:
    """A row with these columns of its steps and no others."""
    return row_with(UNKNOWN, **columns)


def names(row: Row) -> list[str]:
    """The names of the steps that count, the largest first."""
    return [step.name for step in steps.named(row)]


def test_steps_are_in_the_order_of_a_call() -> None:
    row = measured(step_guards=sure(-0.1), step_autograd=sure(0.3), step_code=sure(0.2))
    assert [step.name for step in steps.steps(row)] == ["autograd", "code", "guards"]


def test_a_step_without_an_interval_is_none() -> None:
    row = measured(step_code=Estimate(0.5, None, None), step_entry=sure(-0.2))
    assert [step.name for step in steps.steps(row)] == ["entry"]


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (None, 0.0),
        (Estimate(0.01, -0.01, 0.03), 0.03),
        (Estimate(-0.01, -0.04, 0.02), 0.04),
    ],
)
def test_the_control_counts_by_its_end_that_is_further_from_none(
    control: Estimate | None, expected: float
) -> None:
    assert steps.least(measured(steps_control=control)) == expected


@pytest.mark.parametrize(
    ("share", "counts"),
    [
        (Estimate(0.20, 0.051, 0.30), True),
        (Estimate(0.20, 0.049, 0.30), False),
        (Estimate(-0.20, -0.30, -0.051), True),
        (Estimate(-0.20, -0.30, -0.049), False),
        (Estimate(0.00, -0.30, 0.30), False),
    ],
)
def test_a_step_counts_if_its_whole_interval_lies_beyond_the_control(
    share: Estimate, counts: bool
) -> None:
    row = measured(steps_control=Estimate(0.01, -0.03, 0.05), step_code=share)
    assert names(row) == ["code"] * counts


def test_the_largest_step_comes_first_whether_it_saves_or_adds() -> None:
    row = measured(step_code=sure(0.3), step_entry=sure(-0.5), step_guards=sure(-0.1))
    assert names(row) == ["entry", "code", "guards"]


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (sure(0.20), "code"),  # faster, though entering adds more
        (sure(-0.20), "entry"),
        (sure(0.005), "entry"),  # as fast: by the largest
        (None, "entry"),
    ],
)
def test_the_first_step_is_on_the_side_of_the_gap(gap: Estimate | None, expected: str) -> None:
    row = measured(steps_gap=gap, step_code=sure(0.3), step_entry=sure(-0.5))
    found = steps.first(row)
    assert found is not None
    assert found.name == expected


def test_of_a_mode_as_fast_as_eager_the_largest_step_may_save() -> None:
    row = measured(steps_gap=sure(0.005), step_code=sure(0.5), step_entry=sure(-0.3))
    found = steps.first(row)
    assert found is not None
    assert found.name == "code"


def test_no_step_is_first_if_none_explains_the_side_of_the_gap() -> None:
    assert steps.first(measured(steps_gap=sure(0.2), step_entry=sure(-0.5))) is None
    assert steps.first(measured(steps_gap=sure(-0.2), step_code=sure(0.5))) is None


def test_a_step_that_made_torch_run_other_operators_has_not_its_own_name() -> None:
    row = measured(steps_gap=sure(0.4), step_autograd=sure(0.4), step_code=sure(0.3),
                   steps_unlike='{"autograd": "with aten.mul"}')  # fmt: skip
    assert names(row) == [steps.OTHER_OPERATORS, "code"]
    assert steps.named(row)[0].unlike == "with aten.mul"


def test_the_change_that_gains_most_is_the_best() -> None:
    row = measured(
        steps_gap=sure(0.2), with_static=sure(1.1), with_contiguous=sure(1.3),
        with_flush_denormal=sure(1.2), with_skip_all_guards=Estimate(2.0, None, None),
    )  # fmt: skip
    best = steps.best_trial(row)
    assert best is not None
    assert (best[0].name, best[1].value) == ("contiguous", 1.3)


@pytest.mark.parametrize(("low", "gains"), [(1.099, False), (1.101, True)])
def test_a_change_has_to_gain_more_than_the_control(low: float, gains: bool) -> None:
    """Compiling again changes up to 5 % of eager's call, which is 10 % of the mode's."""
    row = measured(steps_gap=sure(0.5), steps_control=Estimate(0.0, -0.05, 0.02),
                   with_static=Estimate(1.4, low, 1.5))  # fmt: skip
    assert (steps.best_trial(row) is not None) == gains


def test_of_filters_that_may_gain_as_much_the_least_unsafe_is_best() -> None:
    row = measured(
        steps_gap=sure(0.5),
        with_skip_guard_on_all_nn_modules=Estimate(1.2, 1.17, 1.23),
        with_keep_tensor_guards=Estimate(1.3, 1.26, 1.34),
        with_skip_all_guards=Estimate(1.31, 1.27, 1.35),
    )
    best = steps.best_trial(row)
    assert best is not None
    assert best[0].name == "keep_tensor_guards"


SMALL: dict[str, Any] = {
    "device": "cpu", "axes": None, "baseline_mode": "eager", "dtype": "fp32",
    "baseline_dtype": "fp32", "autocast": False, "speedup": sure(2.0, 0.02),
    "step_code": sure(0.49), "dispatch_share": sure(0.8), "dispatch_ratio": sure(2.25),
}  # fmt: skip
"""Eager dispatches for 0.8 × 2.25 ÷ 2.0 = 0.9 of its call, so at most 0.1 of it is work."""


@pytest.mark.parametrize(
    ("changed", "saved"),
    [
        ({}, 0.48 - (1 - 0.79 * 2.24 / 2.02)),
        ({"dispatch_ratio": None}, None),
        ({"baseline_mode": "no_grad"}, None),
        ({"dtype": "bf16"}, None),
        ({"axes": '{"kernels":"mine"}'}, None),
        ({"axes": '{"freezing":true}'}, 0.48 - (1 - 0.79 * 2.24 / 2.02)),
        ({"dtype": "bf16", "autocast": True}, 0.48 - (1 - 0.79 * 2.24 / 2.02)),
        ({"device": "cuda:0"}, None),
    ],
)
def test_code_that_saves_more_than_all_work_saves_dispatch(
    changed: dict[str, Any], saved: float | None
) -> None:
    row = measured(**SMALL | changed)
    assert steps.saved_dispatch(row) == (saved and pytest.approx(saved, abs=1e-6))


def test_steps_of_replicates_are_combined_with_those_that_add_time(tmp_path: Path) -> None:
    entries = (60e-6, 64e-6, 68e-6)
    processes = [
        record("compile", replicate=number, **stepped(
            eager=100e-6, code=40e-6, entry=entry, guards=entry + 10e-6, again=entry + 11e-6
        ))
        for number, entry in enumerate(entries)
    ]  # fmt: skip
    (row,) = as_rows(table_of(save(processes, tmp_path)))
    assert row["step_entry"].value == pytest.approx(-0.24, abs=0.002)
    assert row["step_entry"].low < -0.30 < row["step_entry"].high
    assert row["steps_control"].value == pytest.approx(-0.01, abs=0.002)
    assert row["steps_rest"] == pytest.approx(0.0, abs=0.002)


def test_of_unknown_steps_nothing_is_known() -> None:
    row = measured(with_static=sure(1.3))
    assert (names(row), steps.first(row), steps.best_trial(row)) == ([], None, None)
    assert not steps.is_saving(row)


def test_columns_are_of_the_first_step(tmp_path: Path) -> None:
    fast = {"eager": 100e-6, "code": 40e-6, "entry": 60e-6, "again": 60.1e-6}
    slow = {**fast, "entry": 120e-6, "again": 121e-6}
    alike = '{"entry": "with aten.mul"}'
    rows = rows_of_each(tmp_path, [
        record("compile", **stepped(**fast)),
        record("compile", **stepped(**slow)),
        record("compile", **stepped(**slow) | {"steps_unlike": alike}),
        record("compile"),
    ])  # fmt: skip
    causes = [row["measured_cause"] for row in rows]
    assert causes == ["code", "entry", steps.OTHER_OPERATORS, None]
    found = [row["measured_share"] for row in rows]
    values = [None if share is None else share.value for share in found]
    assert values == [
        pytest.approx(0.6, rel=0.01),
        *[pytest.approx(-0.8, rel=0.01)] * 2,
        None,
    ]
