"""What a row says beside its numbers: graph breaks, its outcome, its check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modescope.analysis.format import cells, phrases
from modescope.analysis.rows import predicates
from tests.helpers.rows import row_with

PRINT = {"place": "net.py:12", "reason": "print"}
ELSEWHERE = {"place": None, "reason": "Skip inlining"}


@pytest.mark.parametrize(
    ("sites", "in_eager", "expected"),
    [
        (None, None, ""),
        (
            [PRINT, ELSEWHERE],
            ["Net.forward"],
            "2 graph breaks: print at net.py:12 and 1 more; in eager: Net.forward",
        ),
        ([ELSEWHERE], [], "1 graph break: Skip inlining"),
    ],
)
def test_breaks_are_told_with_the_place_and_reason_of_the_first(
    sites: list[dict[str, str]] | None, in_eager: list[str] | None, expected: str
) -> None:
    columns = {
        "graph_breaks": None if sites is None else len(sites),
        "graph_break_reasons": None if sites is None else json.dumps(sites),
        "eager_functions": None if in_eager is None else json.dumps(in_eager),
    }
    assert cells.graph_breaks(row_with(columns)) == expected


CHECKED = {
    "status": "ok", "error": 0.01, "error_limit": 0.01, "max_error": None, "checked": "exact",
    "checked_note": None, "checked_inputs": None, "checked_against": None, "scale_error": None,
    "scale_error_limit": None, "baseline_error": None, "baseline_error_limit": None,
    "baseline_dtype": "fp32",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"error": 0.03, "max_error": 0.05}, "error accepted up to 0.05"),
        ({"scale_error": 0.02, "scale_error_limit": 1e-3, "max_error": 0.05},
         "error accepted up to 0.05"),
        ({"scale_error": 1e-3, "scale_error_limit": 1e-3, "max_error": 0.05}, ""),
        ({"error": 0.8, "max_error": 0.05, "checked": "not"}, ""),
        ({"max_error": 0.05}, ""),
        ({"error": 0.03}, ""),
    ],
)  # fmt: skip
def test_an_error_that_was_accepted_knowingly_is_a_remark(
    changes: dict[str, Any], expected: str
) -> None:
    assert phrases.accepted_knowingly(row_with(CHECKED, **changes)) == expected


@pytest.mark.parametrize(
    ("changes", "is_accepted"),
    [
        ({"baseline_error": 6e-4, "max_error": 0.7}, True),
        ({"baseline_error": 4e-4, "max_error": 0.7}, False),  # below five times the tolerance
        ({"baseline_error": 6e-4}, False),
        ({"baseline_error": 6e-4, "max_error": 5e-4}, False),  # there was no baseline then
        ({"baseline_error": 6e-4, "max_error": 0.7, "baseline_error_limit": 1e-3}, False),
        ({"baseline_error": 4e-4, "max_error": 0.7, "baseline_error_limit": 1e-5}, True),
    ],
)
def test_a_baseline_that_was_accepted_knowingly_is_a_remark(
    changes: dict[str, Any], is_accepted: bool
) -> None:
    assert bool(phrases.baseline_accepted(row_with(CHECKED, **changes))) is is_accepted


@pytest.mark.parametrize(
    ("columns", "remark", "why"),
    [
        ({"checked": None}, "", ""),  # a row of an older version
        ({"checked_note": "by rounding"}, "", ""),
        ({"checked": "without_randomness"}, "checked without randomness", ""),
        ({"checked_against": "own", "checked_inputs": "example"},
         "checked against eager, checked on the example", ""),
        ({"checked": "not", "checked_note": "chaos"}, "not checked", "chaos"),
        ({"checked": "not", "status": "wrong_result"}, "not checked", ""),
    ],
)  # fmt: skip
def test_a_row_says_whether_its_results_were_checked(
    columns: dict[str, Any], remark: str, why: str
) -> None:
    assert phrases.checked(row_with(CHECKED, **columns)) == remark
    assert predicates.unchecked(row_with(CHECKED, **columns)) == why


@pytest.mark.parametrize(
    ("limit", "max_error", "expected"),
    [(None, 0.05, None), (0.01, None, 0.01), (0.01, 0.05, 0.05), (0.01, 0.001, 0.01)],
)
def test_the_larger_limit_counts(
    limit: float | None, max_error: float | None, expected: float | None
) -> None:
    row = row_with(CHECKED, error_limit=limit, max_error=max_error)
    assert predicates.accepted_error(row) == expected


@pytest.mark.parametrize(
    ("changes", "in_place"),
    [
        ({}, True),
        ({"copies": 1}, False),
        ({"launches": 1}, False),  # a copy of a sliced input is a kernel
        ({"copies": None, "launches": None, "graph_launches": None}, False),  # a CPU
        ({"graph": False}, False),  # reduce-overhead
    ],
)
def test_a_graph_that_was_given_no_new_inputs_is_told(
    changes: dict[str, Any], in_place: bool
) -> None:
    captured = {"graph": True, "graph_launches": 1, "copies": 0, "launches": 0}
    assert cells._reads_in_place(row_with(captured, **changes)) == in_place


LIMITED = {
    "throttle_reasons": ["sw_power_cap"], "device_clock_hz": [1.98e9, 1.965e9],
    "latency_alone_s": 781e-6, "clock_alone_hz": 1.68e9, "throttle_alone": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "alone"),
    [
        ({}, "781"),
        ({"throttle_reasons": None}, "781"),  # the clocks are apart
        ({"throttle_reasons": [], "clock_alone_hz": 1.95e9, "throttle_alone": None}, ""),
        ({"throttle_reasons": [], "clock_alone_hz": 1.95e9, "throttle_alone": ["sw_power_cap"]},
         "781"),
        ({"throttle_reasons": ["hw_thermal"], "clock_alone_hz": None}, ""),
        ({"latency_alone_s": None, "clock_alone_hz": None, "throttle_alone": None}, "limited"),
        (dict.fromkeys(LIMITED), ""),  # a CPU
    ],
)  # fmt: skip
def test_where_power_is_limited_the_time_of_calls_alone_is_told(
    changes: dict[str, Any], alone: str
) -> None:
    said = phrases.power_limited(row_with(LIMITED, **changes))
    assert alone in said
    assert bool(said) == bool(alone)
    row: dict[str, Any] = LIMITED | changes
    reasons = [*(row["throttle_reasons"] or []), *(row["throttle_alone"] or [])]
    assert ("power limited" in said) is ("sw_power_cap" in reasons)


def test_the_clock_alone_is_compared_with_the_last_reading_of_the_rounds() -> None:
    idle_first = {"throttle_reasons": [], "device_clock_hz": [0.3e9, 1.98e9], "throttle_alone": []}
    assert not phrases.power_limited(row_with(LIMITED | idle_first, clock_alone_hz=1.98e9))
    assert phrases.power_limited(row_with(LIMITED | idle_first)) == "other clock alone (781 µs)"
