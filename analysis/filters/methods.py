"""Methods and functions of an expression, as pandas and Python call them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.filters.compare import compared
from analysis.filters.operands import (
    CONDITION,
    KINDS,
    LABELS,
    LIST,
    NUMBER,
    TEXT,
    Operand,
    Scope,
    listed,
    missing,
    pattern,
)

Method = Callable[[Scope, Operand, Sequence[Operand], Mapping[str, Any]], Operand]


def call(
    scope: Scope, name: str, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    """`of.name(*given, **named)`; UsageError where there is no such method, or not of its kind."""
    if name in _TEXT:
        return _of_text(scope, name, of, given, named)
    method = _METHODS.get(name)
    if method is None:
        known = ", ".join((*_METHODS, *_TEXT))
        raise scope.error(f"{of.text} has no method {name}; there are {known}")
    return method(scope, of, given, named)


def function(scope: Scope, name: str, given: Sequence[Operand]) -> Operand:
    """`len(flags)` and `abs(number)`; UsageError for any other."""
    if len(given) == 1 and name == "len" and given[0].kind in (LABELS, TEXT):
        sizes = [None if value is None else len(value) for value in given[0].value]
        return Operand(NUMBER, pd.Series(sizes, scope.rows.index, dtype="float64"), "its length")
    if len(given) == 1 and name == "abs":
        return _absolute(scope, given[0], (), {})
    raise scope.error(f"{name}(…) is not known here; the functions are len(flags) and abs(number)")


def _missing(
    scope: Scope, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    if given or named or of.is_constant:
        raise scope.error(f"write {of.text}.isna() with nothing in its brackets")
    return Operand(CONDITION, missing(of), of.text)


def _known(
    scope: Scope, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    return Operand(CONDITION, ~_missing(scope, of, given, named).value, of.text)


def _among(
    scope: Scope, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    if len(given) != 1 or given[0].kind != LIST or named:
        raise scope.error(f'write {of.text}.isin(["a", "b"])')
    return Operand(CONDITION, compared(scope, ast.In(), of, given[0]), of.text)


def _between(
    scope: Scope, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    if len(given) != 2 or {of.kind, *(one.kind for one in given)} != {NUMBER} or named:
        raise scope.error(f"write {of.text}.between(1, 2), with two numbers")
    low, high = (one.value for one in given)
    holds = (of.value >= low) & (of.value <= high)
    return Operand(CONDITION, holds.astype(bool), of.text)


def _absolute(
    scope: Scope, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    if given or named or of.kind != NUMBER:
        raise scope.error(f"abs is of a number, and {of.text} is {KINDS[of.kind]}")
    return Operand(NUMBER, abs(of.value), of.text)


_METHODS: dict[str, Method] = {
    "isna": _missing, "isnull": _missing, "notna": _known, "notnull": _known,
    "isin": _among, "between": _between, "abs": _absolute,
}  # fmt: skip

_TEXT: dict[str, Callable[[re.Pattern[str], str], bool]] = {
    "contains": lambda wanted, value: wanted.search(value) is not None,
    "match": lambda wanted, value: wanted.match(value) is not None,
    "fullmatch": lambda wanted, value: wanted.fullmatch(value) is not None,
    "startswith": lambda wanted, value: wanted.match(value) is not None,
    "endswith": lambda wanted, value: any(m.end() == len(value) for m in wanted.finditer(value)),
}
_REGULAR = ("contains", "match", "fullmatch")  # pandas reads a regular expression there
_OPTIONS = {"case": True, "regex": True, "na": False}  # of pandas; unknown is never a match


def _of_text(
    scope: Scope, name: str, of: Operand, given: Sequence[Operand], named: Mapping[str, Any]
) -> Operand:
    """Of text, or of any of the labels."""
    if of.kind not in (TEXT, LABELS) or of.is_constant:
        raise scope.error(f"{name} is of text, and {of.text} is {KINDS[of.kind]}")
    texts = [one for one in given if one.is_constant and one.kind == TEXT]
    if len(given) != 1 or not texts or not set(named) <= set(_OPTIONS):
        raise scope.error(f'write {of.text}.{name}("text")')
    options = _OPTIONS | dict(named)
    wanted = pattern(
        scope, texts[0].value, name in _REGULAR and bool(options["regex"]), bool(options["case"])
    )
    fits = _TEXT[name]
    several = of.value if of.kind == LABELS else of.value.map(lambda v: [] if v is None else [v])
    holds = scope.each(any(fits(wanted, value) for value in values) for values in several)
    if not holds.any():
        near = listed(scope, of, texts[0].value)
        scope.note(f"{of.text}.{name}({texts[0].text}) fits no row; {near}")
    return Operand(CONDITION, holds, of.text)
