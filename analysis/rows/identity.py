"""Distinguishes rows with equal names by the options in which they differ, or by case.

A row's name is its work, machine, mode, precision and baseline. Two cases may have the same name
and differ in another option.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pandas as pd

from modescope.analysis.format.phrases import as_rows
from modescope.analysis.rows.select import FAMILY, per_row
from modescope.bench.records.results import Work

_SIZES = ("shape", "batch", "seq")
_NAME = ("mode", "dtype", "baseline_mode", "baseline_dtype", "compile_cache")  # always shown
OPTIONS = tuple(
    field.name for field in fields(Work) if field.name not in {*FAMILY, *_SIZES, *_NAME}
)
"""The other columns that describe a case."""

DOC = (
    "options in which the row differs from another one of the same work (at any size), machine, "
    "mode, dtype, baseline and cache, such as fullgraph=false; the case_id for cases that differ "
    "in no column; null if there is no other such row"
)


def apart(rows: pd.DataFrame) -> pd.Series:
    """The text of the column `apart`; None where a row's name is unique."""
    group = _groups(rows, [*FAMILY, *_NAME])
    texts: list[list[str]] = [[] for _ in range(len(rows))]
    for name in OPTIONS:
        values = rows[name].tolist()
        if len(set(values)) < 2:  # nearly all options, of a small study in a fraction of the time
            continue
        for place in _differing(rows[name], group):
            texts[place].append(f"{name}={_value(values[place])}")
    named = rows.assign(_text=list(map(", ".join, texts)))
    same = _groups(named, [*FAMILY, "shape", *_NAME, "_text"])
    for place, count in enumerate(same.map(same.value_counts())):
        if count > 1:
            texts[place].append(f"case {rows['case_id'].iloc[place][:8]}")
    return per_row(rows, (", ".join(options) or None for options in texts), "object")


def _differing(values: pd.Series, group: pd.Series) -> Iterator[int]:
    """The positions of rows whose group has several values."""
    codes = pd.Series(pd.factorize(values, use_na_sentinel=False)[0], values.index)
    pairs = pd.DataFrame({"group": group, "code": codes}).drop_duplicates()
    differs = group.map(pairs["group"].value_counts()) > 1
    yield from (place for place, several in enumerate(differs) if several)


def _groups(rows: pd.DataFrame, by: list[str]) -> pd.Series:
    """A number for each row, the same for rows that are equal in the columns `by`."""
    numbers: dict[tuple[Any, ...], int] = {}
    keys = (tuple(row.values()) for row in as_rows(rows[by]))
    return per_row(rows, (numbers.setdefault(key, len(numbers)) for key in keys), "int64")


def _value(value: Any) -> str:
    if pd.isna(value):
        return "null"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # an integer column with nulls holds floats
    return value if isinstance(value, str) else json.dumps(value)
