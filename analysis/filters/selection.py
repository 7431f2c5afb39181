"""Rows chosen by an expression of pandas' `DataFrame.query`, which is checked before.

By itself, query compares text with a column of that name, and a list with a text, and finds no row
without saying why. So names and kinds are checked here, and what asks for a flag is rewritten.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import pandas as pd

from analysis.filters import columns, quotes, syntax
from analysis.filters.columns import BOOLEAN, LABELS, NUMBER, READINGS, TEXT

_IN = (ast.In, ast.NotIn)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
FUNCTIONS = ("abs", "sqrt", "log", "log10", "exp")
NULLS = ("null", "None")
CONSTANTS = {"true": True, "false": False}


@dataclass(frozen=True)
class Selection:
    """The rows that were kept; `notes` are sentences on values that no row has."""

    rows: pd.DataFrame
    total: int  # rows that there were
    expression: str
    notes: tuple[str, ...]

    @property
    def count(self) -> str:
        """`0 of 22 rows match --where 'mode == "amp"'`."""
        rows = "row matches" if self.total == 1 else "rows match"
        return f"{len(self.rows)} of {self.total} {rows} --where {self.expression!r}"


def select(rows: pd.DataFrame, expression: str) -> Selection:
    """The rows for which `expression` holds; UsageError, one sentence, where it has no meaning.

    Names are columns of `rows`; text stands in quotes. `flags == "drift"`, `"drift" in flags` and
    `flags.str.contains("drift")` all ask whether that flag was raised. Unknown (null) is equal to
    nothing and neither larger nor smaller; `speedup is null` finds it.
    """
    tree, source = syntax.parsed(expression)
    kinds = {str(name): columns.kind(str(name), rows[name]) for name in rows}
    quotes.check(tree, quotes.Scope(kinds, expression, source))
    checked = _Checked(rows, kinds, expression, source)
    try:
        condition = ast.unparse(checked.condition(tree))
        if not checked.used:
            raise syntax.error(
                expression, f"no column is in it; write for example {syntax.EXAMPLE}"
            )
        frame = pd.DataFrame(checked.used, index=rows.index)
        kept = rows[pd.Series(frame.eval(condition, engine="python"), rows.index, dtype=bool)]
    except (RecursionError, MemoryError):
        raise syntax.error(expression, "it is nested too deeply") from None
    except (ArithmeticError, AttributeError, TypeError, ValueError, re.error, KeyError,
            NotImplementedError, SyntaxError) as error:  # fmt: skip
        reason = str(error).partition("\n")[0] or type(error).__name__
        sentence = f"it cannot be worked out ({reason}); write for example {syntax.EXAMPLE}"
        raise syntax.error(expression, sentence) from None
    return Selection(kept, len(rows), expression, tuple(dict.fromkeys(checked.notes)))


@dataclass
class _Checked(ast.NodeTransformer):
    """Checks names and kinds, and rewrites what pandas would not understand as it is meant."""

    rows: pd.DataFrame
    kinds: dict[str, str]
    expression: str
    source: str
    used: dict[str, pd.Series] = field(default_factory=dict)  # columns of the rewritten expression
    notes: list[str] = field(default_factory=list)

    def condition(self, node: ast.expr) -> Any:
        """`node` rewritten as something that holds or not in each row."""
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self.condition(each) for each in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            return ast.UnaryOp(ast.Not(), self.condition(node.operand))
        if isinstance(node, ast.Name) and self.kinds.get(node.id) == BOOLEAN:
            node = ast.Compare(node, [ast.Eq()], [ast.Constant(True)])
        if isinstance(node, ast.Name) and self.kinds.get(node.id) == LABELS:
            return self._keep(self._has(node.id, ""), negated=True)
        if not isinstance(node, (ast.Compare, ast.Call)):
            raise self._error(
                f"{self._text(node)} is no condition; compare a column, for example "
                f"{syntax.EXAMPLE} (in quotes, or the shell takes > for a file to write to)"
            )
        return self.visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in CONSTANTS:
            return ast.Constant(CONSTANTS[node.id])
        if node.id not in self.kinds:
            unknown = columns.unknown_name(node.id, self.kinds)
            raise self._error(f"{unknown} (results/README.md lists all columns)")
        if self.kinds[node.id] == LABELS:
            raise self._error(f'{node.id} is {LABELS}; write "name" in {node.id}')
        if self.kinds[node.id] == READINGS:
            raise self._error(f"{node.id} is {READINGS}, which --where cannot compare")
        values = self.used[node.id] = self._column(node.id)
        if len(values) and values.isna().all():
            self.notes.append(f"{node.id} is unknown (null) in every row")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in self.kinds:
            raise self._error(f"{self._text(node)} is no column; did you mean {node.attr}?")
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name):
            if node.func.id not in FUNCTIONS:
                raise self._error(f"the functions are {', '.join(FUNCTIONS)}")
            return ast.Call(node.func, [self.visit(each) for each in node.args], [])
        if found := self._labels_contain(node):
            name, pattern = found[0], re.compile(found[1])
            holds = self._column(name).map(lambda held: any(map(pattern.search, held)))
            return self._keep(holds.astype(bool), negated=False)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        if len(sides) == 2 and (rewritten := self._of_two(node.left, node.ops[0], sides[1])):
            return rewritten
        for left, right in pairwise(sides):
            self._check_kinds(left, right)
            self._check_kinds(right, left)
        return self.generic_visit(node)

    def _of_two(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.AST | None:
        """A comparison with null or with flags, or of a part of a text; None for any other."""
        negated = isinstance(operator, (ast.NotEq, ast.NotIn, ast.IsNot))
        if _is_null(right) and isinstance(left, ast.Name) and left.id in self.kinds:
            values = self._column(left.id)
            is_null = self._has(left.id, "") if self.kinds[left.id] == LABELS else values.isna()
            return self._keep(is_null, negated)
        for column, value in ((left, right), (right, left)):
            name = column.id if isinstance(column, ast.Name) else None
            kind, texts = self.kinds.get(name or ""), _texts(value)
            if name and kind == LABELS and texts and not isinstance(operator, _ORDER):
                holds = [self._has(name, text) for text in texts]
                return self._keep(reduce(or_, holds), negated)
            if name and kind == TEXT and texts and column is right and isinstance(operator, _IN):
                return self._keep(self._column(name).str.contains(texts[0], regex=False), negated)
        return None

    def _labels_contain(self, node: ast.Call) -> tuple[str, str] | None:
        """Column and text of `flags.str.contains("drift")`."""
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id=name), attr="str"), attr="contains"
                ),
                args=[ast.Constant(value=str(text))],
            ) if self.kinds.get(name) == LABELS:
                return name, text
        return None

    def _has(self, name: str, text: str) -> pd.Series:
        """Whether the labels of each row are among them; of `a;b`, as --csv writes, both are.

        Of no text: whether a row has no label.
        """
        wanted = set(filter(None, text.split(";")))
        labels = self._column(name)
        holds = labels.map(lambda held: wanted <= set(held) if wanted else not held).astype(bool)
        if wanted and not holds.any():
            self._note_absent(name, text)
        return holds

    def _keep(self, holds: pd.Series, negated: bool) -> ast.AST:
        """A column of its own for what holds in each row."""
        name = f"_condition_{len(self.used)}"
        self.used[name] = ~holds if negated else holds
        return ast.Name(name)

    def _check_kinds(self, column: ast.expr, other: ast.expr) -> None:
        """Raises UsageError where a column is compared with a constant of another kind."""
        if not isinstance(column, ast.Name) or column.id not in self.kinds:
            return
        kind = self.kinds[column.id]
        for value in _constants(other):
            expected = (
                TEXT if isinstance(value, str) else kind if isinstance(value, bool) else NUMBER
            )
            if kind in (TEXT, NUMBER) and kind != expected:
                how = "text in quotes" if kind == TEXT else "a number, without quotes"
                raise self._error(f"{column.id} is {kind}; compare it with {how}")
            if kind == BOOLEAN and not isinstance(value, bool) and value not in (0, 1):
                raise self._error(f"{column.id} is {kind}; write {column.id} or not {column.id}")
            if kind == TEXT and not (self._column(column.id) == value).any():
                self._note_absent(column.id, value)

    def _note_absent(self, name: str, value: str) -> None:
        values = self._column(name)
        if values.notna().any():  # else it is noted that all are unknown
            self.notes.append(f'no row has {name} "{value}"; {columns.there_are(values, value)}')

    def _column(self, name: str) -> pd.Series:
        return columns.comparable(name, self.rows[name])

    def _text(self, node: ast.expr) -> str:
        return syntax.written(node, self.source)

    def _error(self, sentence: str) -> Exception:
        return syntax.error(self.expression, sentence)


def _is_null(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else getattr(node, "id", "")
    return value is None or value in NULLS


def _constants(node: ast.expr) -> list[Any]:
    """The values of a constant or of a list of them; 0 for a number that is worked out."""
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return [0]
    members = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else [node]
    return [each.value for each in members if isinstance(each, ast.Constant)]


def _texts(node: ast.expr) -> list[str]:
    """The text that `node` is, or those of a list; empty where it is anything else."""
    values = _constants(node)
    return values if all(isinstance(value, str) for value in values) else []
