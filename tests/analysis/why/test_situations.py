"""Situations with a known cause: kept rows and made-up ones lead to it, and the page says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.situations import __main__ as program
from tests.situations import page, recorded, table
from tests.situations.page import Answer
from tests.situations.table import Measured

SITUATIONS = (*table.COMPLAINTS, *recorded.COMPLAINTS, *table.OTHERS, *table.ELSEWHERE)


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
