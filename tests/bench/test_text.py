"""Tables and pages of the tools, in Markdown and on a terminal."""

from __future__ import annotations

import pytest

from modescope.bench import text
from modescope.bench.text import Section

SECTION = Section("Fruit", "By weight.", ("name", "g"), [("apple|pear", "1,200"), ("fig", "9.5")])
BARE = Section("Bare", "", ("name",), [("fig",)])


def test_a_page_has_a_title_a_heading_and_sections() -> None:
    assert text.page("Market", ["here", "now"], [SECTION, BARE]) == (
        "# Market\n\n- here\n- now\n\n"
        "## Fruit\n\nBy weight.\n\n"
        "| name | g |\n| --- | --: |\n| apple\\|pear | 1,200 |\n| fig | 9.5 |\n\n"
        "## Bare\n\n"
        "| name |\n| --- |\n| fig |\n"
    )
    assert text.plain_section(SECTION) == (
        "Fruit\nBy weight.\n\nname            g\napple|pear  1,200\nfig           9.5"
    )
    assert text.plain_section(BARE) == "Bare\n\nname\nfig"


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["1", "–", "-1.25", "+3 %", "12.5%", "1,234,567"], True),
        (["1", "2 ms"], False),
        (["1", ""], False),
        (["2.13.0"], False),
    ],
)
def test_columns_of_numbers_are_recognised(cells: list[str], right: bool) -> None:
    ruler = text.markdown(["a header"], [[cell] for cell in cells]).splitlines()[1]
    assert ruler == ("| --: |" if right else "| --- |")


def test_durations_have_three_digits() -> None:
    shown = [text.seconds(value) for value in (1.25, 0.9996, -31.44e-6, 2e-9, 0.0)]
    assert shown == ["1.25 s", "1 s", "-31.4 µs", "2 ns", "0 s"]
