"""The values of the parts of an expression, with their kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import pandas as pd

from modescope.analysis.filters.columns import BOOLEAN, LABELS, NUMBER, TEXT

NULL, LIST = "null", "a list"
CONSTANTS = {
    "null": (NULL, None),
    "None": (NULL, None),
    "true": (BOOLEAN, 1.0),
    "false": (BOOLEAN, 0.0),
    "inf": (NUMBER, inf),
}
# method of .str -> the options that it takes
SEARCHES = {
    "contains": ("case", "na", "regex"),
    "match": ("case", "na"),
    "fullmatch": ("case", "na"),
    "startswith": ("na",),
    "endswith": ("na",),
}
CHANGES = {"lower": TEXT, "upper": TEXT, "strip": TEXT, "len": NUMBER}  # -> kind of the result
IS_NULL = {"isna": True, "isnull": True, "notna": False, "notnull": False}


class Meaningless(Exception):
    """What is wrong with an expression, in one sentence."""


@dataclass(frozen=True)
class Value:
    """A part of an expression; `data` is a column or a constant of its kind."""

    kind: str
    data: Any  # for a list: its values
    text: str  # as written by the user
    name: str | None = None  # the column's name, if it is a column

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in all rows."""
        return not isinstance(self.data, pd.Series)

    @property
    def is_unknown(self) -> pd.Series:
        """Whether it is null in each row; for a list of names, whether it is empty."""
        empty: pd.Series = self.data.map(len).eq(0) if self.kind == LABELS else self.data.isna()
        return empty.astype(bool)

    @property
    def members(self) -> list[Value]:
        """The values of a list, or this value alone."""
        return self.data if self.kind == LIST else [self]


def of_constant(value: Any, text: str) -> Value | None:
    """The number, text, true, false or null that `value` is; None for anything else."""
    if value is None:
        return Value(NULL, None, text)
    if isinstance(value, str):
        return Value(TEXT, value, text)
    if isinstance(value, (int, float)):
        return Value(BOOLEAN if isinstance(value, bool) else NUMBER, float(value), text)
    return None


def holds(value: Value, test: Callable[[str], Any], unknown: bool = False) -> pd.Series:
    """Whether `test` is true of the text, or of one of the names, in each row."""
    if value.kind == LABELS:
        matches = [any(map(test, held)) for held in value.data]
    else:
        matches = [unknown if pd.isna(held) else bool(test(held)) for held in value.data]
    return pd.Series(matches, value.data.index, dtype=bool)


def search(method: str, pattern: str, case: bool, regex: bool) -> Callable[[str], Any]:
    """The test that a method of SEARCHES applies to a text; re.error for an invalid pattern."""
    if method in ("startswith", "endswith"):
        return lambda text: getattr(text, method)(pattern)
    compiled = re.compile(pattern if regex else re.escape(pattern), 0 if case else re.IGNORECASE)
    test: Callable[[str], Any] = getattr(compiled, "search" if method == "contains" else method)
    return test
