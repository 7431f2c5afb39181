"""Every cause has a world in which it is named, and near ones in which it is not.

The worlds are in `tests/helpers/cause_worlds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from modescope.analysis.causes.finding import findings
from modescope.analysis.causes.table import CAUSES
from modescope.analysis.causes.types import Finding
from modescope.analysis.format.phrases import Row
from tests.helpers.cause_worlds.table import WORLDS
from tests.helpers.cause_worlds.world import Change
from tests.helpers.causes import rows_of

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


def test_each_cause_has_a_world_and_a_silent_one() -> None:
    assert {code for code, world in WORLDS.items() if world.silent} == {one.code for one in CAUSES}
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
