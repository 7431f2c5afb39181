"""Situations with a known cause: kept rows and made-up ones lead to it, and the page says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.analysis.causes.types import PART, Finding
from modescope.bench.records.errors import UsageError
from tests.helpers.studies import record, save
from tests.situations import __main__ as program
from tests.situations import page, recorded, table
from tests.situations.answers import Answer, answers, fault
from tests.situations.table import Complaint, Measured, Other

SITUATIONS = (*table.COMPLAINTS, *recorded.COMPLAINTS, *table.OTHERS, *table.ELSEWHERE)
NUMBERS = {1, 2, 3, 4, 8, 9, 10, 11, 12, 14}
"""Of complaints that one case shows: 5 to 7 need calls that vary, 13 needs two studies."""


@pytest.fixture(scope="module")
def answered() -> Sequence[Answer]:
    return program.answered(program.KEPT)


@pytest.mark.parametrize("one", [pytest.param(one, id=one.title) for one in SITUATIONS])
def test_the_causes_of_a_situation_are_right(one: Measured, answered: Sequence[Answer]) -> None:
    (answer,) = (each for each in answered if each.situation == one)
    assert answer.fault is None, answer.first


def test_the_page_has_what_is_printed(answered: Sequence[Answer]) -> None:
    _, heading, rest = page.PATH.read_text(encoding="utf-8").partition(page.FIRST)
    assert heading + rest == page.generated(program.KEPT, answered), (
        "docs/why.md is outdated: python -m tests.situations --write"
    )


def test_there_are_enough_of_them() -> None:
    complaints = [one for one in SITUATIONS if isinstance(one, Complaint)]
    assert {one.number for one in complaints} == NUMBERS
    assert len(table.OTHERS) >= 20
    assert sum(one.row.startswith('model == "custom') is False for one in table.OTHERS) >= 10
    assert len({one.title for one in SITUATIONS}) == len(SITUATIONS)


FOUND = Finding(
    "guards", PART, 0.5, "guards take 3 µs.", "Fewer.", "slow: guards take 3 µs. Fewer."
)
COMPLAINT = Complaint(
    number=1, title="one", thread="", sweep="", row="", first=("guards",), says=r"take \d µs"
)
OTHER = Other(title="two", sweep="", row="", true=("guards",), because="")


@pytest.mark.parametrize(
    ("situation", "found", "expected"),
    [
        (COMPLAINT, (FOUND,), None),
        (COMPLAINT, (), "names no cause instead of guards"),
        (COMPLAINT, (replace(FOUND, code="casts"), FOUND), "names casts first, not guards"),
        (replace(COMPLAINT, says="Fewer"), (FOUND,), "its first sentence does not say Fewer"),
        (OTHER, (), None),
        (OTHER, (FOUND,), None),
        (OTHER, (FOUND, replace(FOUND, code="casts")), "names casts, which is not there"),
    ],
)
def test_a_wrong_cause_is_a_fault(
    situation: Measured, found: tuple[Finding, ...], expected: str | None
) -> None:
    assert fault(situation, found) == expected


def test_a_row_that_was_not_measured_is_said(tmp_path: Path) -> None:
    study = save([record("eager", speedup=1.0)], tmp_path)
    expected = r'one: 0 rows of .* match mode == "amp", and it needs one'
    with pytest.raises(UsageError, match=expected):
        list(answers(study, [replace(COMPLAINT, row='mode == "amp"')]))


def test_the_program_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "COMPLAINTS", table.COMPLAINTS[:1])
    assert program.main([]) == 0
    assert "wrong" not in capsys.readouterr().out
    (graphs,) = (one for one in table.OTHERS if "CUDA graphs" in one.title)
    monkeypatch.setattr(table, "OTHERS", (replace(graphs, true=()),))
    assert program.main([]) == 1
    expected = f"wrong  {graphs.title}\n       names not_graphed, which is not there"
    assert expected in capsys.readouterr().out
