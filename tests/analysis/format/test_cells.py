from __future__ import annotations

import json

import pytest

from modescope.analysis.format import cells


@pytest.mark.parametrize(
    ("scale", "skipped", "expected"),
    [(65536.0, True, "65,536, overflow skipped"), (0.5, None, "0.5"), (None, None, "–")],
)
def test_the_loss_scale_says_what_happened_to_an_overflow(
    scale: float | None, skipped: bool | None, expected: str
) -> None:
    row = {"loss_scale": scale, "overflow_skipped": skipped}
    assert cells.loss_scale(row) == expected


@pytest.mark.parametrize(
    ("launches", "graphs", "expected"),
    [
        (None, None, "–"),
        (0, 0, "0 launches"),
        (1, None, "1 launch"),
        (1234, 0, "1,234 launches"),
        (3, 1, "3 launches + 1 graph launch"),
        (0, 2, "2 graph launches"),
    ],
)
def test_launches_of_both_kinds_are_counted(
    launches: int | None, graphs: int | None, expected: str
) -> None:
    assert cells.launches({"launches": launches, "graph_launches": graphs}) == expected


def test_the_roofline_names_what_sets_it() -> None:
    assert cells.roofline({"roofline_fraction": 0.62, "floor_bound": "compute"}) == "62 % (compute)"
    assert cells.roofline({"roofline_fraction": None, "floor_bound": None}) == "–"


@pytest.mark.parametrize(
    ("accessed", "saved", "expected"),
    [
        (3 * 2**20, 2**20, "3.00 MiB (1.00 MiB less)"),
        (3 * 2**20, -(2**19), "3.00 MiB (512 KiB more)"),
        (3 * 2**20, None, "3.00 MiB"),
        (None, None, "–"),
    ],
)
def test_bytes_moved_are_held_against_eager(
    accessed: int | None, saved: int | None, expected: str
) -> None:
    assert cells.traffic({"bytes_accessed": accessed, "bytes_saved": saved}) == expected


@pytest.mark.parametrize(
    ("hits", "misses", "expected"),
    [(1, 1, "1 of 2"), (0, 2, "0 of 2"), (0, 0, "–"), (None, 1, "–")],
)
def test_code_from_the_cache_is_of_all_that_was_needed(
    hits: int | None, misses: int, expected: str
) -> None:
    row = {"compiler_cache_hits": hits, "compiler_cache_misses": misses}
    assert cells.from_cache(row) == expected


def test_allocations_and_leaf_operators_have_their_sums_beside_them() -> None:
    def allocations(count: int | None, size_bytes: int | None) -> str:
        row = {"allocations_per_call": count, "allocated_bytes_per_call": size_bytes}
        return cells.allocations(row)

    assert allocations(12, 3 * 2**20) == "12 (3.00 MiB)"
    assert allocations(0, 0) == "0"
    assert allocations(12, None) == "12"
    assert allocations(None, None) == "–"
    assert cells.leaf_operators({"ops_leaf": 38, "leaf_ops_s": 210e-6}) == "38 (210 µs)"
    assert cells.leaf_operators({"ops_leaf": None, "leaf_ops_s": None}) == "–"


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
        "budget": "standard", "budget_rank": 2, "flags": None, "compile": compiled,
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


def test_work_that_the_profiler_did_not_see_has_its_share() -> None:
    assert cells.residual({"residual_s": -20e-6, "work_s": 100e-6}) == "-20.0 µs (20 %)"
    assert cells.residual({"residual_s": None, "work_s": 100e-6}) == "–"


def test_host_time_is_told_where_it_is_not_the_latency() -> None:
    assert cells.host_of_cuda({"device": "cuda:0", "host_s": 1e-3}) == "1.00 ms"
    assert cells.host_of_cuda({"device": "cpu", "host_s": 1e-3}) == "–"
