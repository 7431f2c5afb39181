"""Finds rows whose options of the compiler changed nothing: the code is that without them."""

from __future__ import annotations

import json

import pandas as pd

from modescope.analysis.derive.select import SECTION, codes, per_row
from modescope.analysis.rows.values import as_rows

_SAME = (
    *SECTION, "dtype", "grad", "autocast", "compile_mode", "graph", "fullgraph", "axes",
)  # fmt: skip
"""The columns of a case that decide what is compiled, but for `compile_options`."""


def options_changed_code(rows: pd.DataFrame) -> pd.Series:
    """Returns whether each row's `mode.options` changed the code that Inductor generated.

    Null without options, and if the code of the row or of the same mode without them is unknown.
    """
    given = [row["compile_options"] for row in as_rows(rows[["compile_options"]])]
    split = {text: _split(text) for text in {*given}}
    if not any(options for options, _ in split.values()):
        return per_row(rows, [None] * len(rows), "object")
    others = [split[text][1] for text in given]
    same = codes(rows[[*_SAME]].assign(_others=others), (*_SAME, "_others")).tolist()
    hashes = [row["code_hash"] for row in as_rows(rows[["code_hash"]])]
    cases = [(split[text][0], *case) for text, *case in zip(given, same, hashes, strict=True)]
    plain = {code: found for options, code, found in cases if not options and found is not None}

    def changed(options: bool, code: int, found: str | None) -> bool | None:
        without = plain.get(code)
        return None if not options or None in (found, without) else found != without

    return per_row(rows, (changed(*case) for case in cases), "object")


def _split(compile_options: str | None) -> tuple[bool, str]:
    """Returns whether a mode has options of the compiler, and its other arguments as JSON."""
    given = json.loads(compile_options or "{}")
    has_options = given.pop("options", None) is not None
    return has_options, json.dumps(given, sort_keys=True)
