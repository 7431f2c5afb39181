"""Every cause has a world in which it is named, near ones in which it is not, and a planted fault.

The worlds are in `tests/helpers/cause_worlds`, the faults in `tests/mutants/in_causes.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from modescope.analysis.causes.finding import findings
from modescope.analysis.causes.table import CAUSES
from modescope.analysis.causes.types import Cause, Finding
from modescope.analysis.format.phrases import Row
from tests.helpers.cause_worlds.table import WORLDS
from tests.helpers.cause_worlds.world import Change
from tests.helpers.causes import rows_of
from tests.mutants.faults import FAULTS

RowsOf = Callable[[str], Sequence[Row]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> RowsOf:
    """The derived rows of a cause's world."""

    @cache
    def of(code: str) -> Sequence[Row]:
        return rows_of(WORLDS[code].records, Path(tmp_path_factory.mktemp(code)))

    return of


def _changes(kind: str) -> Iterator[tuple[str, str, Change]]:
    for code, world in WORLDS.items():
        for what, change in getattr(world, kind).items():
            yield code, what, change


def _named(code: str, rows: Sequence[Row]) -> list[Finding]:
    return [one for one in findings(rows)[-1] if one.code == code]


@pytest.mark.parametrize("one", CAUSES, ids=lambda one: one.code)
def test_each_cause_has_a_world_a_silent_one_and_a_fault_in_its_rule(one: Cause) -> None:
    assert WORLDS[one.code].silent
    rule, file = inspect.getsource(one.rule), inspect.getfile(one.rule)
    planted = [each for each in FAULTS if each.old in rule and file.endswith(each.path)]
    assert planted, f"no fault of tests/mutants/in_causes.py lies in {one.rule.__name__}"


def test_no_world_is_of_an_unknown_cause() -> None:
    assert set(WORLDS) == {one.code for one in CAUSES}


@pytest.mark.parametrize("code", WORLDS)
def test_it_is_named_with_its_figures(code: str, rows: RowsOf) -> None:
    (found,) = _named(code, rows(code))
    assert found.sentence == WORLDS[code].sentence


@pytest.mark.parametrize(
    ("code", "change"),
    [pytest.param(c, change, id=f"{c}: {w}") for c, w, change in _changes("silent")],
)
def test_it_is_silent_where_one_fact_differs(code: str, change: Change, rows: RowsOf) -> None:
    assert _named(code, change(rows(code))) == []


@pytest.mark.parametrize(
    ("code", "change"),
    [pytest.param(c, change, id=f"{c}: {w}") for c, w, change in _changes("still")],
)
def test_it_is_named_at_the_near_side_of_its_limit(code: str, change: Change, rows: RowsOf) -> None:
    assert _named(code, change(rows(code))) != []
