"""Selects rows by an expression over their columns: `mode == "compile" and speedup > 1.1`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from modescope.analysis.filters import columns, quotes, syntax
from modescope.analysis.filters.reading import Reading
from modescope.analysis.filters.values import Meaningless


@dataclass(frozen=True)
class Selection:
    """The matching rows; `notes` are sentences on values that no row has."""

    rows: pd.DataFrame
    total: int  # rows before the selection
    expression: str
    notes: tuple[str, ...]

    @property
    def count(self) -> str:
        """`0 of 22 rows match --where 'mode == "amp"'`."""
        rows = "row matches" if self.total == 1 else "rows match"
        return f"{len(self.rows)} of {self.total} {rows} {syntax.named(self.expression)}"


def select(rows: pd.DataFrame, expression: str) -> Selection:
    """The rows that match `expression`; UsageError of one sentence if it is invalid.

    Names are columns of `rows`; text is in quotes. `flags == "drift"`, `"drift" in flags` and
    `flags.str.contains("drift")` all select rows with that flag. Comparisons with null never hold;
    `speedup is null` selects null.
    """
    tree, source = syntax.parsed(expression)
    kinds = {str(name): columns.kind(str(name), rows[name]) for name in rows}
    try:
        quotes.check(tree, quotes.Scope(kinds, expression, source))
        reading = Reading(rows, kinds, source)
        with np.errstate(all="ignore"):  # log(0) is inf without a warning
            matching = rows[reading.condition(tree)]
    except Meaningless as error:
        raise syntax.error(expression, str(error)) from None
    except (RecursionError, MemoryError):
        raise syntax.error(expression, syntax.TOO_DEEP) from None
    except (ArithmeticError, TypeError, ValueError) as error:
        sentence = f"it cannot be evaluated ({error}); write for example {syntax.EXAMPLE}"
        raise syntax.error(expression, sentence) from None
    return Selection(matching, len(rows), expression, tuple(dict.fromkeys(reading.notes)))
