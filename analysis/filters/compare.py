"""Comparisons of two operands, each with its one meaning for every kind of column.

Unknown values are equal to nothing and neither larger nor smaller; `!=` and `not in` are the
opposite of `==` and `in`, so they hold for unknown values.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from analysis.filters.operands import (
    BOOLEAN,
    KINDS,
    LABELS,
    LIST,
    NULL,
    NUMBER,
    TEXT,
    Operand,
    Scope,
    listed,
    missing,
)

Comparison = Callable[[Scope, Operand, Operand], pd.Series]

_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def compared(scope: Scope, operation: ast.cmpop, left: Operand, right: Operand) -> pd.Series:
    """Where the comparison holds; UsageError where it has no meaning."""
    if left.is_constant and right.is_constant:
        raise scope.error(f"{left.text} and {right.text} are no columns; compare a column")
    kind = type(operation)
    if kind in _ORDER:
        return _ordered(scope, kind, left, right)
    meaning, negated = _MEANINGS[kind]
    holds = meaning(scope, left, right)
    return ~holds if negated else holds


def _equal(scope: Scope, left: Operand, right: Operand) -> pd.Series:
    if left.is_constant:
        left, right = right, left
    if right.kind == NULL:
        return missing(left)
    if right.kind == LIST:
        return _among(scope, left, right)
    if left.kind == LABELS and right.kind == TEXT and right.is_constant:
        return _labelled(scope, left, right.value)
    if left.kind == BOOLEAN and right.is_constant and right.kind == NUMBER:
        if right.value not in (0, 1):
            raise _mismatch(scope, left, right)
        right = Operand(BOOLEAN, bool(right.value), right.text)
    if left.kind != right.kind or left.kind not in (NUMBER, TEXT, BOOLEAN):
        raise _mismatch(scope, left, right)
    if left.kind == NUMBER:
        _note_unknown(scope, left, right)
        return _plain(left.value == right.value)
    if right.is_constant:
        holds = scope.each(value == right.value for value in left.value)
        if left.kind == TEXT:
            _note_absent(scope, left, right.value, holds)
        return holds
    pairs = zip(left.value, right.value, strict=True)
    return scope.each(one is not None and one == other for one, other in pairs)


def _among(scope: Scope, left: Operand, right: Operand) -> pd.Series:
    """Equal to one of a list."""
    holds = scope.each(False for _ in scope.rows.index)
    for member in right.value:
        holds |= _equal(scope, left, member)
    return holds


def _labelled(scope: Scope, column: Operand, text: str) -> pd.Series:
    """Whether `text` is one of the labels; `a;b`, as --csv prints them: whether these are all."""
    if ";" in text or not text:
        wanted = set(filter(None, text.split(";")))
        return scope.each(set(labels) == wanted for labels in column.value)
    holds = scope.each(text in labels for labels in column.value)
    _note_absent(scope, column, text, holds)
    return holds


def _contains(scope: Scope, left: Operand, right: Operand) -> pd.Series:
    """`in`: one of a list, one of the labels, or a part of the text."""
    if right.kind == LIST:
        return _among(scope, left, right)
    if not (left.is_constant and left.kind == TEXT and right.kind in (LABELS, TEXT)):
        raise scope.error(
            f'{left.text} in {right.text} has no meaning; write column in ["a", "b"], or '
            '"text" in column'
        )
    if right.kind == LABELS:
        return _labelled(scope, right, left.value)
    holds = scope.each(value is not None and left.value in value for value in right.value)
    _note_absent(scope, right, left.value, holds)
    return holds


def _ordered(scope: Scope, kind: type[ast.cmpop], left: Operand, right: Operand) -> pd.Series:
    if left.is_constant:
        left, right, kind = right, left, _TURNED[kind]
    if left.kind != right.kind or left.kind not in (NUMBER, TEXT):
        raise _mismatch(scope, left, right)
    compare = _ORDER[kind]
    if left.kind == NUMBER:
        _note_unknown(scope, left, right)
        return _plain(compare(left.value, right.value))
    if not right.is_constant:
        raise scope.error(f"{left.text} and {right.text} are text, which has no order between them")
    return scope.each(value is not None and compare(value, right.value) for value in left.value)


def _plain(holds: Any) -> pd.Series:
    result: pd.Series = holds.astype(bool)
    return result


def _mismatch(scope: Scope, left: Operand, right: Operand) -> Exception:
    """Why two kinds cannot be compared, and how the column's is written."""
    how = {
        NUMBER: "compare it with a number, without quotes",
        TEXT: "compare it with text in quotes",
        BOOLEAN: f"write {left.text}, not {left.text}, or {left.text} == true",
        LABELS: f'write "name" in {left.text}',
    }.get(left.kind, "join conditions by and, or and not")
    if left.kind == right.kind:
        return scope.error(f"{left.text} is {KINDS[left.kind]}, which has no order; {how}")
    kinds = f"{left.text} is {KINDS[left.kind]} and {right.text} is {KINDS[right.kind]}"
    return scope.error(f"{kinds}; {how}")


def _note_absent(scope: Scope, column: Operand, value: str, holds: pd.Series) -> None:
    """No row has this value: a slip of the pen, or something that was not measured."""
    if not holds.any() and column.column is not None:
        scope.note(f'no row has {column.text} "{value}"; {listed(scope, column, value)}')


def _note_unknown(scope: Scope, *operands: Operand) -> None:
    """A column that says nothing in any row makes every comparison false."""
    for one in operands:
        if one.column is not None and len(one.value) and np.isnan(one.value).all():
            scope.note(f"{one.column} is unknown (null) in every row")


_MEANINGS: dict[type[ast.cmpop], tuple[Comparison, bool]] = {
    ast.Eq: (_equal, False),
    ast.Is: (_equal, False),
    ast.NotEq: (_equal, True),
    ast.IsNot: (_equal, True),
    ast.In: (_contains, False),
    ast.NotIn: (_contains, True),
}  # kind -> its meaning, and whether it is the opposite
