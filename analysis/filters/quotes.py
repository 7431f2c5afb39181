"""Finds text without quotes, which would read as a column: `mode == compile`."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modescope.analysis.filters import syntax
from modescope.analysis.filters.columns import LABELS, NUMBER, TEXT
from modescope.analysis.filters.values import CHANGES, CONSTANTS

_CONTAINS = (ast.In, ast.NotIn)
_LISTS = (ast.List, ast.Tuple, ast.Set)
_WORD = re.compile(r"[A-Za-z_][\w.-]*")  # `compile`, `a.b`, `max-autotune`
_BASELINE = "baseline_"


@dataclass(frozen=True)
class Scope:
    """An expression as given, its `source` (to which positions refer), and all columns' kinds."""

    kinds: Mapping[str, str]
    expression: str
    source: str


@dataclass(frozen=True)
class _Bare:
    """Text without quotes, and the comparison that contains it."""

    node: ast.expr
    comparison: ast.Compare


def check(tree: ast.expr, scope: Scope) -> None:
    """Raises UsageError with a corrected expression if quotes are missing."""
    words = [bare for node in ast.walk(tree) for bare in _bare(node, scope)]
    if not words:
        return
    first, source = words[0], scope.source
    text = syntax.written(first.node, source)
    why = "is itself a column" if text in scope.kinds else "is not a column"
    fixed = syntax.with_quotes([bare.node for bare in words], source)
    if '"' not in source:
        fixed = fixed.replace("'", '"')  # a single quote would end the expression in a shell
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
    """The side that may be a text column, and what it is compared with."""
    if isinstance(right, _LISTS):
        return left, right.elts
    others = left.elts if isinstance(left, _LISTS) else [left]
    if isinstance(operator, _CONTAINS):
        return right, [] if _is_text(left, scope) else others
    return (left, [right]) if _is_text(left, scope) else (right, others)


def _is_text(node: ast.expr, scope: Scope) -> bool:
    """Whether it is a column of text or names, or derived from one: `mode.str.lower()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=of, attr="str"), attr=method)):
            return CHANGES.get(method) == TEXT and _is_text(of, scope)
    return isinstance(node, ast.Name) and scope.kinds.get(node.id) in (TEXT, LABELS)


def _lacks_quotes(node: ast.expr, other: ast.expr, scope: Scope) -> bool:
    """Whether `node`, compared with a text column, is a word that needs quotes.

    Two text columns may be compared only if one is the baseline's version of the other.
    """
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    if not names or not _WORD.fullmatch(ast.get_source_segment(scope.source, node) or ""):
        return False
    if not isinstance(node, ast.Name):
        return any(scope.kinds.get(name) != NUMBER for name in names)
    if node.id in CONSTANTS or scope.kinds.get(node.id, TEXT) not in (TEXT, LABELS):
        return False
    others = [each.id for each in ast.walk(other) if isinstance(each, ast.Name)]
    roots = {name.removeprefix(_BASELINE) for name in (node.id, *others)}
    return node.id not in scope.kinds or len(roots) > 1
