from __future__ import annotations

import pandas as pd
import pytest

from modescope.analysis.format import phrases

UNCHECKED = {
    "status": "ok", "error": None, "error_limit": None, "max_error": None, "baseline_error": None,
    "baseline_error_limit": None, "baseline_dtype": "fp32", "checked": None, "checked_note": None,
    "checked_inputs": None, "checked_against": None,
    "scale_error": None, "scale_error_limit": None,
}  # fmt: skip
FACTOR_OFF = {"error": 0.01, "error_limit": 0.01, "scale_error": 0.02, "scale_error_limit": 1e-3}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"error": 0.03, "error_limit": 0.01, "max_error": 0.05}, "error accepted up to 0.05"),
        (FACTOR_OFF | {"max_error": 0.05}, "error accepted up to 0.05"),
        (FACTOR_OFF | {"max_error": 0.05, "scale_error": 1e-3}, ""),
        ({"error": 0.8, "error_limit": 0.01, "max_error": 0.05, "checked": "not"}, ""),
        ({"error": 0.01, "error_limit": 0.01, "max_error": 0.05}, ""),
        ({"error": 0.03, "error_limit": 0.01}, ""),
        ({"error": 0.03, "error_limit": 0.01, "max_error": 0.02, "status": "wrong_result"}, ""),
    ],
)
def test_an_error_that_was_accepted_knowingly_is_a_remark(
    changes: dict[str, object], expected: str
) -> None:
    assert phrases.accepted_knowingly(UNCHECKED | changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"baseline_error": 6e-4, "max_error": 0.7}, "baseline's error accepted up to 0.7"),
        ({"baseline_error": 4e-4, "max_error": 0.7}, ""),  # below five times the tolerance
        ({"baseline_error": 6e-4}, ""),
        ({"baseline_error": 6e-4, "max_error": 5e-4}, ""),  # there was no baseline then
        ({"baseline_error": 6e-4, "max_error": 0.7, "baseline_dtype": "bf16"}, ""),
        ({"baseline_error": 6e-4, "max_error": 0.7, "baseline_error_limit": 1e-3}, ""),
        ({"baseline_error": 4e-4, "max_error": 0.7, "baseline_error_limit": 1e-5}, "up to 0.7"),
        ({"baseline_error": 6e-4, "max_error": 0.7, "status": "failed"}, ""),
    ],
)
def test_a_baseline_that_was_accepted_knowingly_is_a_remark(
    changes: dict[str, object], expected: str
) -> None:
    said = phrases.baseline_accepted(UNCHECKED | changes)
    assert said.endswith(expected)
    assert bool(said) == bool(expected)


@pytest.mark.parametrize(
    ("columns", "remark", "why"),
    [
        ({}, "", ""),  # a row of an older version
        ({"checked": "exact", "checked_note": "by rounding"}, "", ""),
        ({"checked": "without_randomness", "checked_note": "p = 0"},
         "checked without randomness", ""),
        ({"checked": "exact", "checked_against": "float64", "checked_inputs": "rebuilt"}, "", ""),
        ({"checked": "exact", "checked_against": "own", "checked_inputs": "example"},
         "checked against eager, checked on the example", ""),
        ({"checked": "not", "checked_note": "chaos"}, "not checked", "chaos"),
        ({"checked": "not"}, "not checked", "no reason was recorded"),
        ({"checked": "not", "status": "wrong_result"}, "not checked", ""),
    ],
)  # fmt: skip
def test_a_row_says_whether_its_results_were_checked(
    columns: dict[str, object], remark: str, why: str
) -> None:
    assert phrases.checked(UNCHECKED | columns) == remark
    assert phrases.unchecked(UNCHECKED | columns) == why


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"max_error": 0.05}, None),
        ({"error_limit": 0.01}, 0.01),
        ({"error_limit": 0.01, "max_error": 0.05}, 0.05),
        ({"error_limit": 0.01, "max_error": 0.001}, 0.01),
    ],
)
def test_the_larger_limit_counts(changes: dict[str, object], expected: float | None) -> None:
    assert phrases.accepted_error(UNCHECKED | changes) == expected


def test_of_a_smoke_run_nothing_that_takes_rounds_is_shown() -> None:
    name = phrases.OF_ROUNDS[0]
    table = pd.DataFrame([{name: 2.0, "budget_rank": rank, "latency_s": 1.0} for rank in (0, 1)])
    assert phrases.that_counts({name: 2.0, "budget_rank": 0}, name) is None
    assert phrases.that_counts({name: 2.0, "budget_rank": 1}, name) == 2.0
    assert phrases.that_counts(table, name).isna().tolist() == [True, False]
    assert phrases.that_counts(table, "latency_s").tolist() == [1.0, 1.0]
