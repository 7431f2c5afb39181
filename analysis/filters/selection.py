"""Rows chosen by an expression, and what to say where none is left."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.filters import quotes, syntax
from analysis.filters.evaluate import condition
from analysis.filters.operands import Scope


@dataclass(frozen=True)
class Selection:
    """The rows that were kept; `notes` are sentences on names and values that no row has."""

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

    Names are columns of `rows`; text stands in quotes. Comparisons: == != < <= > >= and chains of
    them, `in` and `not in` with a list, joined by and, or, not (&, |, ~ too) and brackets;
    arithmetic of numbers; `flags == "drift"`, `"drift" in flags` and `flags.str.contains("drift")`
    all ask whether that flag was raised. Unknown (null) is equal to nothing and neither larger nor
    smaller; `speedup is null`, `speedup.isna()` and `speedup != speedup` find it.
    """
    tree, source = syntax.parsed(expression)
    scope = Scope(rows, expression, source)
    quotes.check(tree, scope)
    try:
        kept = rows[condition(tree, scope)]
    except RecursionError:
        raise scope.error("it is nested too deeply") from None
    return Selection(kept, len(rows), expression, tuple(scope.notes))
