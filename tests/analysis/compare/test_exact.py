"""Exact changes: what became worse, better, or is only reported."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.analysis.compare import exact
from modescope.analysis.compare.exact import ChangeKind, ExactChange
from modescope.analysis.rows.type import Row
from tests.helpers.rows import row_with

ROW: dict[str, Any] = {
    "status": "ok", "reason": None, "in_effect": True, "in_effect_note": None,
    "compile_mode": "default",
    **dict.fromkeys(exact.ON_REQUEST), "graphs": 1, "graph_breaks": 0, "recompiles": 0,
}  # fmt: skip


def rows(**columns: list[Any]) -> list[Row]:
    """A process for each value."""
    (count,) = {len(values) for values in columns.values()} or {1}
    return [
        row_with(ROW, **{name: values[n] for name, values in columns.items()}) for n in range(count)
    ]


def kinds(old: list[Any], new: list[Any]) -> list[tuple[str, str]]:
    return [(one.quantity, one.kind) for one in exact.find_changes(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (["ok"], ["ok"], None),
        (["ok", "ok"], ["ok", "crashed"], ChangeKind.WORSE),
        (["ok"], ["skipped"], ChangeKind.WORSE),
        (["ok", "crashed"], ["crashed", "crashed"], ChangeKind.WORSE),
        (["ok", "crashed"], ["ok", "crashed"], ChangeKind.REPORTED),
        (["failed"], ["ok"], ChangeKind.BETTER),
        (["failed"], ["oom"], ChangeKind.REPORTED),
        (["ok", "crashed"], ["ok", "ok"], None),
    ],
)
def test_how_a_row_ended(old: list[str], new: list[str], expected: str | None) -> None:
    found = kinds(rows(status=old), rows(status=new))
    assert found == ([("status", expected)] if expected else [])


def test_a_row_that_vanished_fails_if_it_was_ok() -> None:
    assert exact.find_changes(rows(), []) == [
        ExactChange("row", ChangeKind.WORSE, "not in the new results")
    ]
    assert kinds(rows(status=["failed"]), []) == [("row", ChangeKind.REPORTED)]
    assert kinds([], rows()) == [("row", ChangeKind.REPORTED)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([True, True], [True, False], [("in_effect", ChangeKind.WORSE)]),
        ([False], [False], []),
        ([False], [True], [("in_effect", ChangeKind.BETTER)]),
        ([True], [None], []),
    ],
)
def test_whether_a_mode_is_in_effect(old: list[Any], new: list[Any], expected: list[Any]) -> None:
    assert kinds(rows(in_effect=old), rows(in_effect=new)) == expected


@pytest.mark.parametrize("name", ["graph_breaks", "recompiles", *exact.ON_REQUEST])
def test_more_is_worse_where_processes_agree(name: str) -> None:
    assert kinds(rows(**{name: [3, 3]}), rows(**{name: [4, 4]})) == [(name, ChangeKind.WORSE)]
    assert kinds(rows(**{name: [3, 3]}), rows(**{name: [2, 2]})) == [(name, ChangeKind.BETTER)]
    assert kinds(rows(**{name: [3, 3]}), rows(**{name: [3, 4]})) == [(name, ChangeKind.REPORTED)]
    assert kinds(rows(**{name: [3, 4]}), rows(**{name: [4, 4]})) == [(name, ChangeKind.REPORTED)]
    assert kinds(rows(**{name: [3, 4]}), rows(**{name: [4, 3]})) == []
    assert kinds(rows(**{name: [None]}), rows(**{name: [4]})) == []
    assert kinds(rows(**{name: [3, None]}), rows(**{name: [4, None]})) == [(name, ChangeKind.WORSE)]


def test_no_graph_at_all_is_not_zero_graph_breaks() -> None:
    new = rows(graphs=[0], graph_breaks=[None])
    assert ("compiled", ChangeKind.WORSE) in kinds(rows(), new)
    assert ("compiled", ChangeKind.WORSE) not in kinds(new, new)
    uncompiled = [row | {"compile_mode": "none"} for row in new]
    assert ("compiled", ChangeKind.WORSE) not in kinds(rows(), uncompiled)
