"""The part of an expression that stored columns of the case decide, before rows are derived."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modescope.analysis.filters import columns, syntax, values
from modescope.analysis.filters.reading import Reading
from modescope.bench.records.errors import UsageError


@dataclass(frozen=True)
class Pushed:
    """Conditions that all must hold, over the columns `names`."""

    names: tuple[str, ...]
    conditions: tuple[ast.expr, ...]
    source: str

    def evaluated(self, rows: pd.DataFrame) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
        """Whether all conditions hold in each of `rows`, and notes on values that none has.

        Raises what `Reading.condition` raises for an invalid one.
        """
        kinds = {str(name): columns.kind(str(name), rows[name]) for name in rows}
        reading = Reading(rows, kinds, self.source)
        with np.errstate(all="ignore"):
            matches = reduce(and_, map(reading.condition, self.conditions))
        return np.asarray(matches, dtype=bool), tuple(dict.fromkeys(reading.notes))


def pushed(expression: str, known: Collection[str]) -> Pushed | None:
    """Of conditions that are joined by `and` those over the columns `known` alone.

    None without any, and for an expression that cannot be parsed.
    """
    try:
        tree, source = syntax.parsed(expression)
        parts = [(part, _names(part)) for part in _joined(tree)]
    except (UsageError, RecursionError):
        return None  # `selection.select` says what is wrong
    chosen = [(part, names) for part, names in parts if names and names <= {*known}]
    if not chosen:
        return None
    names = dict.fromkeys(name for _, found in chosen for name in sorted(found))
    return Pushed(tuple(names), tuple(part for part, _ in chosen), source)


def _joined(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for part in node.values:
            yield from _joined(part)
    else:
        yield node


def _names(node: ast.expr) -> set[str]:
    """The columns that a condition names, and its functions."""
    named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return named - {*values.CONSTANTS}
