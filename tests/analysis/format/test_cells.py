from __future__ import annotations

import json

import pytest

from modescope.analysis.format import cells


@pytest.mark.parametrize(
    ("compiled", "fullgraph", "expected"),
    [
        ("default", False, "fullgraph=false"),
        ("default", True, ""),
        ("default", None, ""),
        ("none", False, ""),
    ],
)
def test_that_graph_breaks_were_allowed_sets_compiled_rows_apart(
    compiled: str, fullgraph: bool | None, expected: str
) -> None:
    row = {
        "budget": "standard", "budget_rank": 2, "flags": None, "compile_mode": compiled,
        "fullgraph": fullgraph, "measured_times": 1, "replicates": 1, "replicates_not_ok": 0,
        "status": "ok", "error": None, "error_limit": None, "max_error": None,
        "baseline_error": None, "baseline_error_limit": None, "baseline_dtype": "fp32",
        "checked": "exact", "checked_inputs": "fresh", "checked_against": "float64",
        "graph_breaks": 0, "apart": None,
    }  # fmt: skip
    assert cells.remarks(row) == expected
    assert cells.remarks({**row, "apart": "fullgraph=false"}) == ""  # is in its name
    accepted = cells.remarks({**row, "max_error": 0.7, "baseline_error": 0.1})
    assert accepted.startswith("baseline's error accepted up to 0.7")
    assert cells.remarks({**row, "checked": "not"}).startswith("not checked")


PRINT = {"place": "net.py:12", "reason": "Failed to trace builtin operator"}
ELSEWHERE = {"place": None, "reason": "Skip inlining"}


@pytest.mark.parametrize(
    ("sites", "in_eager", "expected"),
    [
        (None, None, ""),
        ([], [], ""),
        ([PRINT], [], "1 graph break: Failed to trace builtin operator at net.py:12"),
        (
            [PRINT, ELSEWHERE],
            ["Net.forward"],
            "2 graph breaks: Failed to trace builtin operator at net.py:12 and 1 more; "
            "in eager: Net.forward",
        ),
        ([ELSEWHERE], [], "1 graph break: Skip inlining"),
        ([], ["f", "g"], "in eager: f, g"),
    ],
)
def test_breaks_are_told_with_the_place_and_reason_of_the_first(
    sites: list[dict[str, str]] | None, in_eager: list[str] | None, expected: str
) -> None:
    row = {
        "graph_breaks": None if sites is None else len(sites),
        "graph_break_reasons": None if sites is None else json.dumps(sites),
        "eager_functions": None if in_eager is None else json.dumps(in_eager),
    }
    assert cells.graph_breaks(row) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "faster"),
        ({"status": "oom"}, "oom"),
        ({"in_effect": False}, "not in effect"),
        ({"in_effect": None}, "faster"),
        ({"verdict": None, "budget_rank": 0}, "smoke"),
        ({"verdict": None}, "–"),
    ],
)
def test_in_a_word_what_became_of_a_row(changes: dict[str, object], expected: str) -> None:
    row = {"status": "ok", "in_effect": True, "verdict": "faster", "budget_rank": 2}
    assert cells.outcome(row | changes) == expected


def test_host_time_is_told_where_it_is_not_the_latency() -> None:
    assert cells.host_of_cuda({"device": "cuda:0", "host_paired_s": 1e-3}) == "1.00 ms"
    assert cells.host_of_cuda({"device": "cpu", "host_paired_s": 1e-3}) == "–"
