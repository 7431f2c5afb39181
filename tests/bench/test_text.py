"""Tables and pages of the tools, in Markdown and on a terminal."""

from __future__ import annotations

import pytest

from modescope.bench import text


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
