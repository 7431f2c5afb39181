"""Tables of the tools, on a page and on a terminal."""

from __future__ import annotations

import pytest

from modescope.bench.text import tables


def test_numbers_are_right_aligned_and_bars_are_escaped() -> None:
    headers, rows = ("name", "g"), [("apple|pear", "1,200"), ("fig", "9.5")]
    assert tables.markdown(headers, rows).splitlines() == [
        "| name | g |",
        "| --- | --: |",
        "| apple\\|pear | 1,200 |",
        "| fig | 9.5 |",
    ]
    assert tables.plain(headers, rows) == "name            g\napple|pear  1,200\nfig           9.5"


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["1", "–"], True),
        (["-1.25", "+3 %", "12.5%", "1,234,567"], True),
        (["1", "2 ms"], False),
        (["1", ""], False),
        (["2.13.0"], False),
    ],
)
def test_columns_of_numbers_are_recognised(cells: list[str], right: bool) -> None:
    ruler = tables.markdown(["a header"], [[cell] for cell in cells]).splitlines()[1]
    assert ruler == ("| --: |" if right else "| --- |")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.25, "1.25 s"),
        (0.9996, "1 s"),
        (-31.44e-6, "-31.4 µs"),
        (2e-9, "2 ns"),
        (0.0, "0 s"),
    ],
)
def test_durations_have_three_digits(value: float, text: str) -> None:
    assert tables.seconds(value) == text
