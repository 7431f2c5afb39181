"""Comparisons of two parts of an expression, row by row. Null equals nothing."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pandas as pd

from modescope.analysis.filters.columns import BOOLEAN, LABELS, NUMBER, TEXT
from modescope.analysis.filters.values import LIST, NULL, Meaningless, Value, holds

EQUAL = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
IN = (ast.In, ast.NotIn)
_OPPOSITES = (ast.NotEq, ast.NotIn, ast.IsNot)
_ORDER: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_HOW = {
    NUMBER: "compare it with a number, without quotes",
    TEXT: "compare it with text in quotes",
    BOOLEAN: "write {0} or not {0}",
    LABELS: 'write "name" in {0}',
}


def compared(left: Value, by: ast.cmpop, right: Value) -> pd.Series:
    """Whether the comparison holds in each row; Meaningless if invalid. One side is a column."""
    column, other = (right, left) if left.is_constant else (left, right)
    if other.kind == NULL:
        if not isinstance(by, EQUAL):
            raise Meaningless(
                f"null has no order and is in no list; write {column.text} is null or "
                f"{column.text} is not null"
            )
        matches = column.is_unknown
    elif isinstance(by, IN):
        matches = _among(left, right)
    elif isinstance(by, EQUAL):
        matches = _any(_equal(column, one) for one in other.members)
    else:
        matches = _in_order(left, by, right)
    return ~matches if isinstance(by, _OPPOSITES) else matches


def has(column: Value, text: str, part: bool) -> pd.Series:
    """Whether the text of each row equals `text` (`part`: contains it), or its list has the name.

    Of names joined by `;`, as --csv writes them, the list must have all; of none, it is empty.
    """
    if column.kind == LABELS:
        wanted = set(filter(None, text.split(";")))
        if not wanted:
            return column.is_unknown
        matches = [wanted <= set(names) for names in column.data]
        return pd.Series(matches, column.data.index, dtype=bool)
    return holds(column, lambda held: text in held if part else text == held)


def _among(left: Value, right: Value) -> pd.Series:
    if right.kind == LIST:
        return _any(_equal(left, one) for one in right.members)
    of_text = right.kind in (TEXT, LABELS) and not right.is_constant
    if of_text and left.is_constant:
        for one in left.members:
            if one.kind != TEXT:
                raise Meaningless(mismatch(right, one))
        return _any(has(right, one.data, part=True) for one in left.members)
    what = f'"name" in {left.text}' if left.kind == LABELS else f"{left.text} in [{right.text}]"
    raise Meaningless(f"in needs a list in square brackets on its right; write {what}")


def _any(each: Iterable[pd.Series]) -> pd.Series:
    every = list(each)
    if not every:
        raise Meaningless("the list is empty; write at least one value")
    return reduce(operator.or_, every)


def _equal(left: Value, right: Value) -> pd.Series:
    if left.kind == LABELS and right.kind == TEXT and right.is_constant:
        return has(left, right.data, part=False)
    _check(left, right)
    equal: pd.Series = left.data == right.data
    return equal & _both_known(left, right)


def _in_order(left: Value, by: ast.cmpop, right: Value) -> pd.Series:
    if LIST in (left.kind, right.kind):
        raise Meaningless("a list has no order; use in, or compare with a single value")
    _check(left, right)
    if left.kind not in (NUMBER, TEXT):
        raise Meaningless(mismatch(left, right))
    known = _both_known(left, right)
    if left.kind == TEXT:
        left, right = (
            one if one.is_constant else Value(one.kind, one.data.fillna(""), one.text)
            for one in (left, right)
        )
    ordered: pd.Series = _ORDER[type(by)](left.data, right.data)
    return ordered & known


def _both_known(left: Value, right: Value) -> pd.Series:
    known = [one.data.notna() for one in (left, right) if not one.is_constant]
    return reduce(operator.and_, known)


def _check(left: Value, right: Value) -> None:
    """Raises Meaningless if the kinds differ; a true-or-false column may be compared with 0, 1."""
    kinds = {left.kind, right.kind}
    if kinds == {BOOLEAN, NUMBER}:
        number = left if left.kind == NUMBER else right
        if number.is_constant and number.data in (0, 1):
            return
    if len(kinds) > 1 or left.kind == LABELS:
        raise Meaningless(mismatch(left, right))


def mismatch(left: Value, right: Value) -> str:
    """The message for two kinds that cannot be compared, with what to write."""
    one, other = (right, left) if left.is_constant else (left, right)
    if other.is_constant:
        return f"{one.text} is {one.kind}; {_HOW[one.kind].format(one.text)}"
    return f"{one.text} is {one.kind} and {other.text} is {other.kind}, which cannot be compared"
