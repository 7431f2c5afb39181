"""What a row's type cannot say: columns named by a variable, and values that another shows known.

The type itself is `Row` of `analysis.row_type`, which `python -m analysis.dictionary` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")


def value_of(row: Mapping[str, Any], column: str) -> Any:
    """Returns a row's value in a column whose name is computed, so that no type checker knows it.

    A column that is named in the source is `row["name"]`, which is checked.
    """
    return row[column]


def required(value: Value | None) -> Value:
    """Returns a value of a row that another one of its values shows not to be None.

    The caller has read that other value: a verdict, for example, is only given with a speedup.
    """
    assert value is not None
    return value
