"""Text without quotes, which would be read as a column: `mode == compile`, `flags == drift`."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analysis.filters import syntax
from analysis.filters.columns import LABELS, TEXT

_EQUALS = (ast.Eq, ast.NotEq)
_CONTAINS = (ast.In, ast.NotIn)
_PLAIN = (ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp)  # `compile`, `a.b`, `max-autotune`
_CONSTANTS = ("null", "true", "false")
_BASELINE = "baseline_"


@dataclass(frozen=True)
class Scope:
    """An expression, as it was given and as its positions count, and the kinds of all columns."""

    kinds: Mapping[str, str]
    expression: str
    source: str


@dataclass(frozen=True)
class _Bare:
    """Text without quotes, and the comparison that it is in."""

    node: ast.expr
    comparison: ast.Compare


def check(tree: ast.expr, scope: Scope) -> None:
    """Raises UsageError, with the expression that was probably meant, where quotes are missing."""
    found = [bare for node in ast.walk(tree) for bare in _bare(node, scope)]
    if not found:
        return
    first, source = found[0], scope.source
    text = syntax.written(first.node, source)
    is_column = isinstance(first.node, ast.Name) and text in scope.kinds
    why = "is a column of its own" if is_column else "is no column"
    fixed = syntax.with_quotes([bare.node for bare in found], source)
    if '"' not in source:
        fixed = fixed.replace("'", '"')  # which a shell would take for the end of the expression
    raise syntax.error(
        scope.expression,
        f"in {syntax.written(first.comparison, source)}, {text} {why}; put quotes around text: "
        f"--where {shlex.quote(fixed)}",
    )


def _bare(node: ast.AST, scope: Scope) -> Iterator[_Bare]:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            column, others = _beside_a_column(left, operator, right, scope)
            if _is_text(column, scope):
                yield from (_Bare(one, node) for one in others if _lacks_quotes(one, column, scope))


def _beside_a_column(
    left: ast.expr, operator: ast.cmpop, right: ast.expr, scope: Scope
) -> tuple[ast.expr, list[ast.expr]]:
    """What may be a column of text, and what it is compared with."""
    if isinstance(right, ast.List | ast.Tuple | ast.Set):
        return left, right.elts
    if isinstance(operator, _CONTAINS):
        return right, [left]
    if isinstance(operator, _EQUALS):
        return (left, [right]) if _is_text(left, scope) else (right, [left])
    return left, []


def _is_text(node: ast.expr, scope: Scope) -> bool:
    return isinstance(node, ast.Name) and scope.kinds.get(node.id) in (TEXT, LABELS)


def _lacks_quotes(node: ast.expr, other: ast.expr, scope: Scope) -> bool:
    """Whether `node`, beside the column `other`, is text that was meant as it stands.

    Two columns of text are compared only where one is the other's of the baseline.
    """
    if not isinstance(node, _PLAIN) or not any(isinstance(n, ast.Name) for n in ast.walk(node)):
        return False
    if not isinstance(node, ast.Name):
        return True
    assert isinstance(other, ast.Name)
    names = {node.id.removeprefix(_BASELINE), other.id.removeprefix(_BASELINE)}
    return node.id not in _CONSTANTS and not (node.id in scope.kinds and len(names) == 1)
