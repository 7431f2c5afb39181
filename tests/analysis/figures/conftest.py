"""Figures are drawn as in a report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from modescope.analysis.figures import theme


@pytest.fixture(autouse=True)
def look() -> Iterator[None]:
    """The look of all figures."""
    with theme.look():
        yield
