"""Rows chosen by an expression over their columns: `mode == "compile" and speedup > 1.1`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.filters import columns, quotes, syntax
from analysis.filters.reading import Reading
from analysis.filters.values import Meaningless


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
        return f"{len(self.rows)} of {self.total} {rows} {syntax.named(self.expression)}"


def select(rows: pd.DataFrame, expression: str) -> Selection:
    """The rows for which `expression` holds; UsageError, one sentence, where it has no meaning.

    Names are columns of `rows`; text stands in quotes. `flags == "drift"`, `"drift" in flags` and
    `flags.str.contains("drift")` all ask whether that flag was raised. Unknown (null) is equal to
    nothing and neither larger nor smaller; `speedup is null` finds it.
    """
    tree, source = syntax.parsed(expression)
    kinds = {str(name): columns.kind(str(name), rows[name]) for name in rows}
    try:
        quotes.check(tree, quotes.Scope(kinds, expression, source))
        reading = Reading(rows, kinds, source)
        with np.errstate(all="ignore"):  # of log(0): inf and nan say it
            kept = rows[reading.condition(tree)]
    except Meaningless as error:
        raise syntax.error(expression, str(error)) from None
    except (RecursionError, MemoryError):
        raise syntax.error(expression, "it is nested too deeply") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        sentence = f"it cannot be worked out ({error}); write for example {syntax.EXAMPLE}"
        raise syntax.error(expression, sentence) from None
    return Selection(kept, len(rows), expression, tuple(dict.fromkeys(reading.notes)))
