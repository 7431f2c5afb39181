"""Evaluates an expression's syntax tree over the columns of a table, checking kinds."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from modescope.analysis.filters import columns, comparing, syntax, values
from modescope.analysis.filters.columns import BOOLEAN, LABELS, NUMBER, READINGS, TEXT
from modescope.analysis.filters.values import LIST, NULL, Meaningless, Value

_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "sqrt": np.sqrt, "log": np.log, "log10": np.log10, "exp": np.exp,
}  # fmt: skip
_METHODS = "isna, notna, isin, between, str." + ", str.".join((*values.SEARCHES, *values.CHANGES))
_CONDITIONS = (ast.Compare, ast.Call, ast.Name, ast.BoolOp, ast.UnaryOp)


@dataclass
class Reading:
    """Evaluates an expression over `rows`; `notes` collects sentences on values no row has."""

    rows: pd.DataFrame
    kinds: dict[str, str]
    source: str
    notes: list[str] = field(default_factory=list)

    def condition(self, node: ast.expr) -> pd.Series:
        """Whether `node` holds in each row; not where it is unknown."""
        if isinstance(node, ast.BoolOp):
            joined = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return reduce(joined, [self.condition(each) for each in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            return ~self.condition(node.operand)
        value = self._value(node) if isinstance(node, _CONDITIONS) else None
        if value and value.kind == LABELS:
            return ~value.is_unknown
        if value is None or value.kind != BOOLEAN or value.is_constant:
            raise Meaningless(
                f"{self._text(node)} is not a condition; compare a column, for example "
                f"{syntax.EXAMPLE} (in quotes, or the shell takes > as a redirection)"
            )
        matches: pd.Series = value.data == 1
        return matches

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name():
                return self._named(node)
            case ast.Constant() if constant := values.of_constant(node.value, self._text(node)):
                return constant
            case ast.List() | ast.Tuple() | ast.Set():
                return self._list(node)
            case ast.Compare():
                return Value(BOOLEAN, self._comparison(node), self._text(node))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return self._computed(node, _ARITHMETIC[type(node.op)], node.operand)
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                return self._computed(node, _ARITHMETIC[type(node.op)], node.left, node.right)
            case ast.UnaryOp() | ast.BoolOp():
                return Value(BOOLEAN, self.condition(node), self._text(node))
            case ast.Call(func=ast.Name(id=name)):
                if name not in _FUNCTIONS:
                    raise Meaningless(f"the functions are {', '.join(_FUNCTIONS)}")
                self._arguments(node, 1)
                return self._computed(node, _FUNCTIONS[name], *node.args)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=of, attr="str"), attr=name)):
                return self._text_method(node, self._value(of), name)
            case ast.Call(func=ast.Attribute(value=of, attr=name)):
                return self._method(node, self._value(of), name)
            case ast.Attribute(attr=name) if name in self.kinds:
                raise Meaningless(f"{self._text(node)} is not a column; did you mean {name}?")
        raise Meaningless(f"{self._text(node)} is not a column, number or text in quotes")

    def _named(self, node: ast.Name) -> Value:
        name = node.id
        if name in values.CONSTANTS:
            return Value(*values.CONSTANTS[name], name)
        if name not in self.kinds:
            unknown = columns.unknown_name(name, self.kinds)
            raise Meaningless(f"{unknown} (results/README.md lists all columns)")
        kind = self.kinds[name]
        if kind == READINGS:
            raise Meaningless(f"{name} is {READINGS}, which --where cannot compare")
        value = Value(kind, columns.comparable(kind, self.rows[name]), name, name)
        if kind != LABELS and len(self.rows) and value.is_unknown.all():
            self.notes.append(f"{name} is unknown (null) in every row")
        return value

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        members = [self._value(each) for each in node.elts]
        for each in members:
            if not each.is_constant or each.kind in (LIST, NULL):
                how = "is null" if each.kind == NULL else f"== {each.text}"
                raise Meaningless(
                    f"a list may hold numbers or text, not {each.text}; compare with {how} instead"
                )
        return Value(LIST, members, self._text(node))

    def _computed(self, node: ast.expr, function: Callable[..., Any], *operands: ast.expr) -> Value:
        """The value of a function of numbers."""
        arguments = [self._value(each) for each in operands]
        for each in arguments:
            if each.kind != NUMBER:
                raise Meaningless(
                    f"in {self._text(node)}, {each.text} is {each.kind}, but must be a number"
                )
        result = function(*(each.data for each in arguments))
        if isinstance(result, complex):
            raise Meaningless(f"{self._text(node)} is not a real number")
        return Value(NUMBER, result, self._text(node))

    def _method(self, node: ast.Call, of: Value, name: str) -> Value:
        text = self._text(node)
        if name in values.IS_NULL and not of.is_constant:
            self._arguments(node, 0)
            return Value(BOOLEAN, of.is_unknown == values.IS_NULL[name], text)
        if name == "isin" and not of.is_constant:
            (members,) = self._arguments(node, 1)
            return Value(BOOLEAN, self._compared(of, ast.In(), members), text)
        if name == "between" and of.kind == NUMBER and not of.is_constant:
            low, high = self._arguments(node, 2)
            above = self._compared(of, ast.GtE(), low)
            return Value(BOOLEAN, above & self._compared(of, ast.LtE(), high), text)
        raise self._no_method(node, of)

    def _text_method(self, node: ast.Call, of: Value, name: str) -> Value:
        text = self._text(node)
        if of.is_constant or of.kind not in (TEXT, LABELS):
            raise self._no_method(node, of)
        if name in values.CHANGES and of.kind == TEXT:
            self._arguments(node, 0)
            kind = values.CHANGES[name]
            changed = getattr(of.data.str, name)()
            return Value(kind, columns.comparable(kind, changed), text)
        if name not in values.SEARCHES:
            raise self._no_method(node, of)
        pattern, given = self._search(node, values.SEARCHES[name])
        options = {"case": True, "regex": True, "na": False} | given
        try:
            test = values.search(name, pattern.data, options["case"], options["regex"])
        except re.error as error:
            raise Meaningless(
                f"{pattern.text} is not a regular expression ({error}); str.contains searches for "
                "plain text with regex=False"
            ) from None
        if of.name and not values.holds(of, test).any():
            self._note(of, f"{text} holds in no row", pattern.data)
        return Value(BOOLEAN, values.holds(of, test, options["na"]), text)

    def _arguments(self, node: ast.Call, count: int) -> list[Value]:
        """The arguments' values; Meaningless unless there are `count` of them, without options."""
        if len(node.args) != count or node.keywords:
            takes = f"{count or 'no'} value{'' if count == 1 else 's'}"
            raise Meaningless(f"{self._text(node.func)} takes {takes}")
        return [self._value(each) for each in node.args]

    def _search(self, node: ast.Call, known: Sequence[str]) -> tuple[Value, dict[str, bool]]:
        """The text to search for, and the options of a method of SEARCHES."""
        positional = [self._value(each) for each in node.args]
        given = {str(one.arg): self._value(one.value) for one in node.keywords}
        options = [one for one in given.values() if one.kind == BOOLEAN and one.is_constant]
        texts = [one for one in positional if one.kind == TEXT and one.is_constant]
        if (
            [len(positional), len(texts)] != [1, 1]
            or len(options) < len(given)
            or {*given} - {*known}
        ):
            takes = ", ".join(("one text in quotes", *(f"{name}=True or False" for name in known)))
            raise Meaningless(f"{self._text(node.func)} takes {takes}")
        return texts[0], {name: bool(one.data) for name, one in given.items()}

    def _comparison(self, node: ast.Compare) -> pd.Series:
        sides = [self._value(each) for each in (node.left, *node.comparators)]
        holds = [
            self._compared(left, by, right)
            for (left, right), by in zip(pairwise(sides), node.ops, strict=True)
        ]
        return reduce(operator.and_, holds)

    def _compared(self, left: Value, by: ast.cmpop, right: Value) -> pd.Series:
        if left.is_constant and right.is_constant:
            named = (one for one in (left, right) if one.kind == TEXT and one.data in self.kinds)
            raise Meaningless(
                next((f"{one.text} in quotes is text; write {one.data}" for one in named), "")
                or f"it names no column; write for example {syntax.EXAMPLE}"
            )
        holds = comparing.compared(left, by, right)
        if isinstance(by, (*comparing.EQUAL, *comparing.IN)):
            for column, other in ((left, right), (right, left)):
                if column.name and column.kind in (TEXT, LABELS):
                    part = column is right and isinstance(by, comparing.IN)
                    self._note_absent(column, other, part)
        return holds

    def _note_absent(self, column: Value, other: Value, part: bool) -> None:
        """Notes each text of `other` that no row has (`part`: that no row contains)."""
        for one in other.members:
            is_text = one.kind == TEXT and one.is_constant and one.data
            if is_text and not comparing.has(column, one.data, part).any():
                named = (f'"{one.data}"', "in", column.text)
                absent = " ".join(named if part and column.kind == TEXT else named[::-2])
                self._note(column, f"no row has {absent}", one.data)

    def _note(self, column: Value, what: str, wanted: str) -> None:
        """Notes `what` and the existing values; not for a text column that is null in all rows."""
        if column.kind == LABELS or not column.is_unknown.all():
            self.notes.append(f"{what}; {columns.there_are(self.rows[column.name], wanted)}")

    def _no_method(self, node: ast.Call, of: Value) -> Meaningless:
        return Meaningless(
            f"{self._text(node.func)} is not supported; {of.text} is {of.kind}, and the methods "
            f"of columns are {_METHODS}"
        )

    def _text(self, node: ast.expr) -> str:
        return syntax.written(node, self.source)
