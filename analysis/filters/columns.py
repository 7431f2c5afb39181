"""The columns that an expression may name: their kinds, and messages about unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np
import pandas as pd
import pyarrow as pa

from modescope.bench.records.parquet import SCHEMA

NUMBER, TEXT, BOOLEAN, LABELS = "a number", "text", "true or false", "a list of names"
READINGS = "a list of readings"
MOST_NAMED = 20  # values of a column listed in a note


def kind(name: str, values: pd.Series) -> str:
    """The kind of a column of the derived table."""
    if name in SCHEMA.names:
        return _of_type(SCHEMA.field(name).type)
    if pd.api.types.is_bool_dtype(values.dtype):
        return BOOLEAN
    return NUMBER if pd.api.types.is_numeric_dtype(values.dtype) else TEXT


def _of_type(stored: pa.DataType) -> str:
    if pa.types.is_list(stored):
        return LABELS if pa.types.is_string(stored.value_type) else READINGS
    if pa.types.is_boolean(stored):
        return BOOLEAN
    return TEXT if pa.types.is_string(stored) else NUMBER


def comparable(kind: str, values: pd.Series) -> pd.Series:
    """The column in its kind's type: numbers as float64, true as 1, a null list as empty."""
    if kind == LABELS:
        return values.map(lambda held: list(held) if isinstance(held, (list, np.ndarray)) else [])
    if kind == BOOLEAN:
        return values.astype("boolean").astype("Float64").astype("float64")
    return values.astype("float64" if kind == NUMBER else "str")


def unknown_name(name: str, names: Iterable[str]) -> str:
    """`no column is called mod; did you mean mode?`."""
    near = difflib.get_close_matches(name, [str(each) for each in names], n=1, cutoff=0.6)
    return f"no column is called {name}" + (f"; did you mean {near[0]}?" if near else "")


def there_are(values: pd.Series, wanted: str) -> str:
    """`there are compile, eager`: the existing values, where no row has the value `wanted`."""
    held = sorted({str(value) for value in values.explode().dropna()})
    if len(held) > MOST_NAMED:
        held = difflib.get_close_matches(wanted, held, n=3, cutoff=0.4)
        return f"the nearest are {', '.join(held)}" if held else "nothing similar exists"
    if not held:
        return f"{values.name} is empty in every row"
    return f"there {'is' if len(held) == 1 else 'are'} {', '.join(held)}"
