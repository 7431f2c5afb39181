"""Every cause has a world in which it is named, and near ones in which it is not.

The worlds are in `tests/helpers/cause_worlds`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from modescope.analysis.causes.finding import CAUSES, findings
from modescope.analysis.causes.types import Finding
from modescope.analysis.rows.type import Row
from tests.helpers.cause_worlds import WORLDS
from tests.helpers.causes import Change, rows_of

RowsOf = Callable[[str], Sequence[Row]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> RowsOf:
    @cache
    def of(code: str) -> Sequence[Row]:
        return rows_of(WORLDS[code].records, Path(tmp_path_factory.mktemp(code)))

    return of


def _named(code: str, rows: Sequence[Row]) -> list[Finding]:
    return [one for one in findings(rows)[-1] if one.code == code]


def test_each_cause_has_a_world_and_a_silent_one() -> None:
    known = [code for code, world in WORLDS.items() if world.silent]
    for cause in CAUSES:
        file = cause.rule.__module__.rpartition(".")[2]
        assert cause.code in known, (
            f"no world for {cause.code}: add one with a silent change to WORLDS of "
            f"tests/helpers/cause_worlds/{file}.py"
        )
    assert sorted(known) == sorted(cause.code for cause in CAUSES)


@pytest.mark.parametrize("code", WORLDS)
def test_it_is_named_with_its_figures(code: str, rows: RowsOf) -> None:
    (found,) = _named(code, rows(code))
    assert re.search(".*".join(map(re.escape, WORLDS[code].figures)), found.sentence)
    assert found.share == pytest.approx(WORLDS[code].share, abs=0.01)


CHANGES = [
    pytest.param(code, change, named, id=f"{code}: {what}")
    for code, world in WORLDS.items()
    for changes, named in ((world.silent, False), (world.still, True))
    for what, change in changes.items()
]


@pytest.mark.parametrize(("code", "change", "named"), CHANGES)
def test_its_limits(code: str, change: Change, named: bool, rows: RowsOf) -> None:
    assert bool(_named(code, change(rows(code)))) is named
