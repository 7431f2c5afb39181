"""Rows of tables, and what their type cannot say: computed names, and values that must be known.

The type itself is `Row` of `analysis.rows.type`, which `python -m analysis.dictionary` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from modescope.analysis.rows.type import Row

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")
Key = TypeVar("Key")
Member = TypeVar("Member")


def as_rows(frame: pd.DataFrame) -> list[Row]:
    """Returns the rows of `frame` as mappings, in which unknown values (NaN, NA) are None."""
    names = [str(name) for name in frame.columns]
    cells = frame.to_numpy(dtype=object, na_value=None).tolist()  # type: ignore[arg-type]
    return cast(list[Row], [dict(zip(names, values, strict=True)) for values in cells])


def grouped(pairs: Iterable[tuple[Key, Member]]) -> dict[Key, list[Member]]:
    """Groups (key, member) pairs into lists by key; keys and members keep their order."""
    groups: dict[Key, list[Member]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


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
