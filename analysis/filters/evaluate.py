"""A syntax tree -> what it is worth in every row. What is not listed here is refused."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from analysis.filters import methods, syntax
from analysis.filters.compare import compared
from analysis.filters.operands import (
    BOOLEAN,
    CONDITION,
    KINDS,
    LABELS,
    LIST,
    NULL,
    NUMBER,
    TEXT,
    Operand,
    Scope,
)

_CONSTANTS = {"null": None, "true": True, "false": False}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def condition(node: ast.expr, scope: Scope) -> pd.Series:
    """Where `node` holds, a boolean for each row; UsageError where it is no condition."""
    found = evaluated(node, scope)
    if found.kind == CONDITION:
        holds: pd.Series = found.value
        return holds
    if found.kind == BOOLEAN and not found.is_constant:
        return scope.each(value is not None and bool(value) for value in found.value)
    if found.kind == LABELS:
        return scope.each(bool(labels) for labels in found.value)
    raise scope.error(
        f"{found.text} is {KINDS[found.kind]} and no condition by itself; compare it, for example "
        f"{syntax.EXAMPLE} (in quotes, or the shell takes > for a file to write to)"
    )


def evaluated(node: ast.expr, scope: Scope) -> Operand:
    """The operand that `node` stands for."""
    meaning = _NODES.get(type(node))
    if meaning is None:
        text = syntax.written(node, scope.source)
        raise scope.error(f"{text} is not understood here; write for example {syntax.EXAMPLE}")
    return meaning(node, scope)


def _name(node: ast.Name, scope: Scope) -> Operand:
    if node.id in _CONSTANTS:
        return _constant(ast.Constant(_CONSTANTS[node.id]), scope)
    return scope.column(node.id)


def _constant(node: ast.Constant, scope: Scope) -> Operand:
    value, text = node.value, repr(node.value)
    if value is None:
        return Operand(NULL, None, "null")
    if isinstance(value, bool):
        return Operand(BOOLEAN, value, text.lower())
    if isinstance(value, str):
        return Operand(TEXT, value, text)
    if isinstance(value, int | float):
        try:
            return Operand(NUMBER, np.float64(value), text)
        except OverflowError:
            raise scope.error("a number in it is too large") from None
    raise scope.error(f"{text} is neither a number nor text in quotes")


def _list(node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Operand:
    members = [evaluated(one, scope) for one in node.elts]
    if not all(member.is_constant for member in members):
        raise scope.error("a list holds text in quotes or numbers, no columns")
    return Operand(LIST, members, syntax.written(node, scope.source))


def _all_or_any(node: ast.BoolOp, scope: Scope) -> Operand:
    join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
    holds = reduce(join, [condition(one, scope) for one in node.values])
    return Operand(CONDITION, holds, syntax.written(node, scope.source))


def _unary(node: ast.UnaryOp, scope: Scope) -> Operand:
    text = syntax.written(node, scope.source)
    if isinstance(node.op, ast.Not | ast.Invert):
        return Operand(CONDITION, ~condition(node.operand, scope), text)
    value = _number(node.operand, scope).value
    return Operand(NUMBER, -value if isinstance(node.op, ast.USub) else value, text)


def _arithmetic(node: ast.BinOp, scope: Scope) -> Operand:
    text, work = syntax.written(node, scope.source), _ARITHMETIC.get(type(node.op))
    if work is None:
        raise scope.error(f"{text} is not understood here; numbers take +, -, *, / and %")
    left, right = _number(node.left, scope), _number(node.right, scope)
    with np.errstate(all="ignore"):
        return Operand(NUMBER, work(left.value, right.value), text)


def _number(node: ast.expr, scope: Scope) -> Operand:
    found = evaluated(node, scope)
    if found.kind != NUMBER:
        raise scope.error(f"{found.text} is {KINDS[found.kind]}, with which nothing is calculated")
    return found


def _comparison(node: ast.Compare, scope: Scope) -> Operand:
    sides = [evaluated(one, scope) for one in (node.left, *node.comparators)]
    pairs = zip(node.ops, sides, sides[1:], strict=False)
    holds = reduce(operator.and_, [compared(scope, op, one, other) for op, one, other in pairs])
    return Operand(CONDITION, holds, syntax.written(node, scope.source))


def _call(node: ast.Call, scope: Scope) -> Operand:
    given = [evaluated(one, scope) for one in node.args]
    named = {one.arg or "**": evaluated(one.value, scope).value for one in node.keywords}
    if isinstance(node.func, ast.Name) and not named:
        return methods.function(scope, node.func.id, given)
    if not isinstance(node.func, ast.Attribute):
        text = syntax.written(node, scope.source)
        raise scope.error(f"{text} is not understood here; write for example {syntax.EXAMPLE}")
    of = node.func.value
    if isinstance(of, ast.Attribute) and of.attr == "str":  # as pandas writes it; the same without
        of = of.value
    return methods.call(scope, node.func.attr, evaluated(of, scope), given, named)


def _attribute(node: ast.Attribute, scope: Scope) -> Operand:
    text = syntax.written(node, scope.source)
    if node.attr in scope.kinds:
        raise scope.error(f"{text} is no column; did you mean {node.attr}?")
    raise scope.error(f"{text} is no column, and a method is called with brackets: {text}()")


_NODES: dict[type[ast.expr], Callable[[Any, Scope], Operand]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.BoolOp: _all_or_any,
    ast.UnaryOp: _unary,
    ast.BinOp: _arithmetic,
    ast.Compare: _comparison,
    ast.Call: _call,
    ast.Attribute: _attribute,
}
