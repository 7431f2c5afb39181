"""The page: every claim with all that belongs to it, as HTML and as Markdown."""

from __future__ import annotations

import pytest

from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.checking import NumberRow
from modescope.bench.tools.claims.claim import REFUTED, UNDECIDED
from tests.helpers.claim_rows import row
from tests.helpers.pages import Page

NUMBERS = [
    NumberRow("view-contiguous", "a | refusal", "cpu", None, None, None, "size < stride", ""),
    NumberRow("permute-exercise", "time", "cpu", 1e-6, 9e-7, 2e-6, None, "s"),
]
ROWS = [
    row(
        verdict=REFUTED,
        because="`x.T` was accepted",
        counter_example="x.T.view(<shape>) is a view",
        limits=("none_of_it",),
    ),
    row(
        claim="permute-exercise",
        verdict=UNDECIDED,
        because="no GPU",
        printed=None,
        status="crashed",
        reason="on cpu: it broke",
    ),
]
CONTENTS = page.contents(["a CPU", "`python -m bench.claims`"], ROWS, NUMBERS)
DOCUMENT = "PyTorch memory allocation during tensor shape manipulation (2026-03-18), .view"


@pytest.mark.parametrize(
    ("in_html", "in_markdown"),
    [
        ("0 hold, 0 within limits, 1 are refuted, 1 undecided here", None),
        ("permute-exercise: crashed, on cpu: it broke", None),
        ("x.T was accepted", "`x.T` was accepted"),
        ("x.T.view(<shape>) is a view", "x.T.view(&lt;shape&gt;) is a view"),
        ("none_of_it", None),
        ("Views of x | y.", r"Views of `x \| y`."),
        (DOCUMENT, None),
        ("size < stride", r"| a \| refusal | size &lt; stride |"),
        ("1 µs [900 ns, 2 µs]", "| time | 1 µs [900 ns, 2 µs] |"),
        ("print(1 < 2)", None),
        ("It printed: True", "It printed:\n\n```\nTrue\n```"),
        ("It was not run here.", None),
    ],
)
def test_both_pages_show_it(in_html: str, in_markdown: str | None) -> None:
    assert in_html in Page(page.html_page(CONTENTS)).text
    assert (in_markdown or in_html) in page.markdown_page(CONTENTS)


def test_code_is_marked_and_nothing_is_loaded_from_elsewhere() -> None:
    text = page.html_page(CONTENTS)
    assert "<code>python -m bench.claims</code>" in text
    assert "`" not in text
    assert not Page(text).loads
    assert "http" not in text


def test_numbers_of_two_devices_are_told_apart() -> None:
    both = [row(devices=("cpu", "cuda"))]
    numbers = [
        NumberRow("view-contiguous", "accepted", device, 33.0, None, None, None, "")
        for device in ("cpu", "cuda")
    ]
    text = page.markdown_page(page.contents([], both, numbers))
    assert "| accepted, on cpu | 33 |\n| accepted, on cuda | 33 |" in text
