"""An error as the reason of a record."""

from __future__ import annotations

import pytest

from modescope.bench.records.progress import one_line


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a\n  b"), "ValueError: a b"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 400), f"ValueError: {'x' * 287}…"),
    ],
)
def test_an_exception_is_shown_on_one_line(error: Exception, text: str) -> None:
    assert one_line(error) == text
