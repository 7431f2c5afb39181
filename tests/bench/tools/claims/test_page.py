"""The page: every claim with all that belongs to it, as HTML and as Markdown."""

from __future__ import annotations

import pytest

from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.figures import Figure
from modescope.bench.tools.claims.verdict import REFUTED, UNDECIDED
from tests.helpers.claims.answers import answer
from tests.helpers.pages import Page

FIGURES = [
    Figure("view-contiguous", "accepted", "cpu", 33.0, None, None, None, ""),
    Figure("view-contiguous", "a | refusal", "cpu", None, None, None, "size < stride", ""),
    Figure("permute-exercise", "time", "cpu", 1e-6, 9e-7, 2e-6, None, "s"),
]
ANSWERS = [
    answer(
        verdict=REFUTED,
        because="`x.T` was accepted",
        counter_example="x.T.view(<shape>) is a view",
        limits=("none_of_it",),
    ),
    answer(
        claim="permute-exercise",
        verdict=UNDECIDED,
        because="no GPU",
        printed=None,
        status="crashed",
        reason="on cpu: it broke",
    ),
]
HEADING = ["a CPU", "`python -m bench.claims`"]
CONTENTS = page.contents(HEADING, ANSWERS, FIGURES)


SEEN = [
    "Of 2 statements 0 hold, 0 within limits, 1 is refuted, 1 undecided here.",
    "permute-exercise: crashed, on cpu: it broke",
    "x.T was accepted",
    "x.T.view(<shape>) is a view",
    "none_of_it",
    "Views of x | y.",
    "Holds if <none> is accepted.",
    "PyTorch memory allocation during tensor shape manipulation (2026-03-18), .view",
    "size < stride",
    "1 µs [900 ns, 2 µs]",
    "print(1 < 2)",
    "It printed: True",
    page.NOT_RUN,
]


@pytest.mark.parametrize("words", SEEN)
def test_a_reader_of_the_html_sees(words: str) -> None:
    assert words in Page(page.html_page(CONTENTS)).text


def test_code_is_marked_and_nothing_is_loaded_from_elsewhere() -> None:
    text = page.html_page(CONTENTS)
    assert "<code>python -m bench.claims</code>" in text
    assert "`" not in text
    assert not Page(text).loads
    assert "http" not in text


@pytest.mark.parametrize(
    "line",
    [
        "**Of 2 statements 0 hold, 0 within limits, 1 is refuted, 1 undecided here.** The ",
        "- `python -m bench.claims`",
        "| [view-contiguous](#view-contiguous) | refuted | `.view` can only be called on ",
        "### view-contiguous",
        "**Refuted**: `x.T` was accepted",
        "- counter-example: x.T.view(&lt;shape&gt;) is a view",
        "  - none_of_it",
        "- measured: Views of `x \\| y`.",
        "| a \\| refusal | size &lt; stride |",
        "| time | 1 µs [900 ns, 2 µs] |",
        "print(1 < 2)",
        "True",
        page.NOT_RUN,
    ],
)
def test_markdown_has_the_same(line: str) -> None:
    lines = page.markdown_page(CONTENTS).splitlines()
    assert any(each.startswith(line) for each in lines)


def test_figures_of_two_devices_are_told_apart() -> None:
    both = [answer(devices=("cpu", "cuda"))]
    of_gpu = Figure("view-contiguous", "accepted", "cuda", 34.0, None, None, None, "")
    lines = page.markdown_page(page.contents(HEADING, both, [FIGURES[0], of_gpu])).splitlines()
    assert "| figure | on | observed |" in lines
    assert "| accepted | cuda | 34 |" in lines
