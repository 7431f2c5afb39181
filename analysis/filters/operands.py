"""What stands on either side of a comparison: columns of the table, numbers worked out, constants.

Unknown is None in text, booleans and labels, and NaN in numbers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.filters import syntax
from bench.records import UsageError
from bench.store import SCHEMA

NUMBER, TEXT, BOOLEAN, LABELS = "number", "text", "boolean", "labels"  # kinds of columns
LIST, NULL, CONDITION, READINGS = "list", "null", "condition", "readings"

KINDS = {
    NUMBER: "a number",
    TEXT: "text",
    BOOLEAN: "true or false",
    LABELS: "a list of names",
    LIST: "a list",
    NULL: "null",
    CONDITION: "a condition",
    READINGS: "a list of readings",
}
MOST_NAMED = 20  # values of a column in a note


@dataclass(frozen=True)
class Operand:
    """A value in an expression: one for each row, or the same in all of them.

    `value` is a Series for a column and for what is worked out from one; else a constant.
    """

    kind: str
    value: Any
    text: str  # as it was written
    column: str | None = None

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every row."""
        return not isinstance(self.value, pd.Series)


@dataclass(frozen=True)
class Scope:
    """The table that an expression is about; what a reader should know is added to `notes`."""

    rows: pd.DataFrame
    expression: str
    source: str
    notes: list[str] = field(default_factory=list)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each column of the table."""
        return {str(name): _kind(str(name), self.rows[name]) for name in self.rows}

    def error(self, sentence: str) -> UsageError:
        """What is wrong with the expression."""
        return syntax.error(self.expression, sentence)

    def note(self, sentence: str) -> None:
        """Remembers a sentence once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def each(self, values: Iterable[Any]) -> pd.Series:
        """A condition, a value for each row."""
        return pd.Series(list(values), index=self.rows.index, dtype=bool)

    def column(self, name: str) -> Operand:
        """A column of the table; UsageError where there is no such name."""
        kind = self.kinds.get(name)
        if kind is None:
            raise self.error(f"{self.unknown(name)} (results/README.md lists all columns)")
        if kind == READINGS:
            raise self.error(f"{name} is a list of readings, which --where cannot compare")
        return Operand(kind, _normal(kind, self.rows[name]), name, name)

    def unknown(self, name: str) -> str:
        """`no column is called mod; did you mean mode?`."""
        near = difflib.get_close_matches(name, self.kinds, n=1, cutoff=0.6)
        return f"no column is called {name}" + (f"; did you mean {near[0]}?" if near else "")


def missing(operand: Operand) -> pd.Series:
    """Whether the value of each row is unknown; of labels: whether there is none."""
    values: pd.Series = operand.value
    unknown = values.map(lambda labels: not labels) if operand.kind == LABELS else values.isna()
    return unknown.astype(bool)


def present(operand: Operand) -> list[str]:
    """The values that the rows have in a column of text or labels, without unknown ones."""
    if operand.kind == LABELS:
        return sorted({label for labels in operand.value for label in labels})
    return sorted({value for value in operand.value if value is not None})


def listed(scope: Scope, operand: Operand, value: str) -> str:
    """`there are compile, eager`: what may be meant, where no row has `value`."""
    values = present(operand)
    if not values:
        return f"{operand.text} is empty in every row"
    if len(values) > MOST_NAMED:
        values = difflib.get_close_matches(value, values, n=3, cutoff=0.4)
        return f"the nearest are {', '.join(values)}" if values else "nor anything like it"
    return f"there {'is' if len(values) == 1 else 'are'} {', '.join(values)}"


def _kind(name: str, values: pd.Series) -> str:
    if name in SCHEMA.names:
        return _of_type(SCHEMA.field(name).type)
    if pd.api.types.is_bool_dtype(values.dtype):
        return BOOLEAN
    return NUMBER if pd.api.types.is_numeric_dtype(values.dtype) else TEXT


def _of_type(stored: pa.DataType) -> str:
    if pa.types.is_list(stored):
        return LABELS if pa.types.is_string(stored.value_type) else READINGS
    if pa.types.is_boolean(stored):
        return BOOLEAN
    return TEXT if pa.types.is_string(stored) else NUMBER


def _normal(kind: str, values: pd.Series) -> pd.Series:
    if kind == NUMBER:
        return values.astype("float64")
    if kind == LABELS:
        return values.map(lambda labels: list(labels) if _is_list(labels) else [])
    known = values.notna()
    plain = [value if there else None for value, there in zip(values, known, strict=True)]
    return pd.Series(plain, index=values.index, dtype="object")


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def pattern(scope: Scope, text: str, regex: bool, case: bool) -> re.Pattern[str]:
    """A search pattern; UsageError where it is none."""
    try:
        return re.compile(text if regex else re.escape(text), 0 if case else re.IGNORECASE)
    except re.error as wrong:
        raise scope.error(f"{text!r} is no regular expression: {wrong}") from None
