"""Pages of tools beside run.py: tables on a page and on a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import pages
from bench.pages import Section

SECTION = Section("Fruit", "By weight.", ("name", "g"), [("apple|pear", "1,200"), ("fig", "9.5")])


def test_numbers_stand_right_and_a_bar_does_not_end_a_cell() -> None:
    assert pages.markdown(SECTION.headers, SECTION.rows).splitlines() == [
        "| name | g |",
        "| --- | --: |",
        "| apple\\|pear | 1,200 |",
        "| fig | 9.5 |",
    ]
    assert pages.told(SECTION) == (
        "Fruit\nBy weight.\n\nname            g\napple|pear  1,200\nfig           9.5"
    )


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["1", "–"], True),
        (["-1.25", "+3 %", "12.5%", "1,234,567"], True),
        (["1", "2 ms"], False),
        (["1 of 2"], False),
        (["0.9 to 1.1"], False),
        (["1", ""], False),
        (["2.13.0"], False),
    ],
)
def test_which_columns_are_numbers(cells: list[str], right: bool) -> None:
    ruler = pages.markdown(["a header"], [[cell] for cell in cells]).splitlines()[1]
    assert ruler == ("| --: |" if right else "| --- |")


def test_rows_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        pages.markdown(("a", "b"), [("1",)])


def test_a_page_has_a_title_what_to_know_and_sections() -> None:
    bare = replace(SECTION, title="Bare", note="")
    assert pages.page("Market", ["here", "now"], [SECTION, bare]).split("\n\n") == [
        "# Market",
        "- here\n- now",
        "## Fruit",
        "By weight.",
        table := pages.markdown(SECTION.headers, SECTION.rows),
        "## Bare",
        table + "\n",
    ]
    assert pages.told(bare).startswith("Bare\n\nname")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.25, "1.25 s"),
        (0.9996, "1 s"),
        (3.214e-3, "3.21 ms"),
        (-31.44e-6, "-31.4 µs"),
        (0.9996e-6, "1 µs"),
        (2e-9, "2 ns"),
        (0.0, "0 s"),
    ],
)
def test_durations_have_three_digits(value: float, text: str) -> None:
    assert pages.seconds(value) == text
