"""The page: every claim with all that belongs to it, as HTML and as Markdown."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from bench.claims import page, telling
from bench.claims.claim import REFUTED, UNDECIDED
from bench.claims.seen import Figure
from tests.bench.claims.answers import answer

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


class Text(HTMLParser):
    """What a reader sees, and that every tag is closed."""

    VOID = ("br", "meta")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.parts: list[str] = []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.parts).split())


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
    "1 µs [0.9 µs, 2 µs]".replace("0.9 µs", "900 ns"),
    "print(1 < 2)",
    "It printed: True",
    telling.NOT_RUN,
]


@pytest.mark.parametrize("words", SEEN)
def test_a_reader_of_the_html_sees(words: str) -> None:
    text = Text(page.html_page(HEADING, ANSWERS, FIGURES))
    assert words in text.words


def test_code_is_marked_and_nothing_is_loaded_from_elsewhere() -> None:
    text = page.html_page(HEADING, ANSWERS, FIGURES)
    assert "<code>python -m bench.claims</code>" in text
    assert "`" not in text
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
        telling.NOT_RUN,
    ],
)
def test_markdown_has_the_same(line: str) -> None:
    lines = page.markdown_page(HEADING, ANSWERS, FIGURES).splitlines()
    assert any(each.startswith(line) for each in lines)


def test_figures_of_two_devices_are_told_apart() -> None:
    both = [answer(devices=("cpu", "cuda"))]
    of_gpu = Figure("view-contiguous", "accepted", "cuda", 34.0, None, None, None, "")
    lines = page.markdown_page(HEADING, both, [FIGURES[0], of_gpu]).splitlines()
    assert "| figure | on | observed |" in lines
    assert "| accepted | cuda | 34 |" in lines
