"""Rows for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from modescope.analysis.rows.type import Row


def row_with(columns: Mapping[str, Any], **others: Any) -> Row:
    """A row of these columns only; `others` take the place of those of the same names."""
    return cast(Row, {**columns, **others})
