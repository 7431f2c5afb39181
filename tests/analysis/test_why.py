"""Situations with a known cause: kept rows and made-up ones lead to it, and the page says so."""

from __future__ import annotations

from tests.situations import __main__ as program
from tests.situations import page


def test_the_causes_of_situations_are_right_and_on_the_page() -> None:
    answered = program.answered(program.KEPT)
    assert {one.situation.title: one.fault for one in answered if one.fault} == {}
    _, heading, rest = page.PATH.read_text(encoding="utf-8").partition(page.FIRST)
    assert heading + rest == page.generated(program.KEPT, answered), (
        "docs/why.md is outdated: python -m tests.situations --write"
    )
