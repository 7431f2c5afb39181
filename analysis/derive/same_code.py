"""Finds rows whose options of the compiler changed nothing: the code is that without them."""

from __future__ import annotations

import json

import pandas as pd

from modescope.analysis.derive.select import SECTION, per_row, values_of
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows

_SAME = (
    *SECTION, "dtype", "grad", "autocast", "compile_mode", "graph", "fullgraph", "axes",
)  # fmt: skip
"""The columns of a case that decide what is compiled, but for `compile_options`."""


def options_changed_code(rows: pd.DataFrame) -> pd.Series:
    """Returns whether each row's `mode.options` changed the code that Inductor generated.

    Null without options, and if the code of the row or of the same mode without them is unknown.
    """
    needed = rows[[*_SAME, "compile_options", "code_hash"]]
    cases = [(row, *_split(row)) for row in as_rows(needed)]
    plain = {
        (values_of(row, _SAME), others): row["code_hash"]
        for row, options, others in cases
        if not options and row["code_hash"] is not None
    }

    def changed(row: Row, options: bool, others: str) -> bool | None:
        without = plain.get((values_of(row, _SAME), others))
        if not options or None in (row["code_hash"], without):
            return None
        return bool(row["code_hash"] != without)

    return per_row(rows, (changed(*case) for case in cases), "object")


def _split(row: Row) -> tuple[bool, str]:
    """Returns whether `row` has options of the compiler, and its other arguments as JSON."""
    given = json.loads(row["compile_options"] or "{}")
    has_options = given.pop("options", None) is not None
    return has_options, json.dumps(given, sort_keys=True)
