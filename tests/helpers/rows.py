"""Rows for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from modescope.analysis.rows.type import Row
from modescope.bench.stats.estimates import Estimate


def row_with(columns: Mapping[str, Any], **others: Any) -> Row:
    """A row of these columns only; `others` take the place of those of the same names.

    A function among `others`, such as `ends` returns, makes the new value of the old one.
    """
    new = {
        name: value(columns[name]) if callable(value) else value for name, value in others.items()
    }
    return cast(Row, {**columns, **new})


def ends(**changed: float | None) -> Callable[[Estimate], Estimate]:
    """Changes the `low` or the `high` end of an estimate, or both."""
    return lambda estimate: replace(estimate, **changed)
