from __future__ import annotations

import json

import pytest

from modescope.analysis.format import cells, style
from tests.helpers.studies import MODES

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


def test_every_mode_has_a_look_of_its_own() -> None:
    rows = [
        {"mode": mode, "autocast": autocast, "compile_mode": compiled, "graph": graph}
        for mode, (_, autocast, compiled, graph) in MODES.items()
    ]
    assert len({style.marker(row) for row in rows}) == len(MODES)
    assert {style.family(row).name for row in rows} == {
        "eager", "amp", "compile", "compile + graphs", "cuda-graph",
    }  # fmt: skip
    overridden = {**rows[0], "mode": "eager[autocast=true]", "autocast": True}
    assert style.family(overridden) is style.AMP
    assert style.marker(overridden) == style.MARKERS["eager"]
