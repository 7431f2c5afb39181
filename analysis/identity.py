"""What sets a row apart from others that have its name: another option, or at least another case.

A reader knows a row by its work, where it ran, its mode and precision, and what it was held
against. Two cases may agree in all of these and differ in another option.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pandas as pd

from analysis.rows import FAMILY
from bench.records import Work

_SIZES = ("shape", "batch", "seq")
_NAME = ("mode", "dtype", "baseline_mode", "baseline_dtype", "compile_cache")  # shown anyway
OPTIONS = tuple(
    field.name for field in fields(Work) if field.name not in {*FAMILY, *_SIZES, *_NAME}
)
"""The other columns that describe a case."""

DOC = (
    "options in which the row differs from another of the same work, at whatever size, and of the "
    "same place, mode, dtype, baseline and cache: fullgraph=false; two cases that differ in no "
    "column are told apart by their case_id; null where there is no other"
)


def apart(rows: pd.DataFrame) -> pd.Series:
    """The text of the column `apart`; None where a row's name is its own."""
    group = _groups(rows, [*FAMILY, *_NAME])
    found: list[list[str]] = [[] for _ in range(len(rows))]
    for name in OPTIONS:
        values = rows[name].tolist()
        for place in _differing(rows[name], group):
            found[place].append(f"{name}={_value(values[place])}")
    texts = rows.assign(_text=[", ".join(told) for told in found])
    same = _groups(texts, [*FAMILY, "shape", *_NAME, "_text"])
    for place, count in enumerate(same.map(same.value_counts())):
        if count > 1:
            found[place].append(f"case {rows['case_id'].iloc[place][:8]}")
    return pd.Series([", ".join(told) or None for told in found], rows.index, dtype="object")


def _differing(values: pd.Series, group: pd.Series) -> Iterator[int]:
    """The places of the rows in whose group there are several values."""
    codes = pd.Series(pd.factorize(values, use_na_sentinel=False)[0], values.index)
    pairs = pd.DataFrame({"group": group, "code": codes}).drop_duplicates()
    differs = group.map(pairs["group"].value_counts()) > 1
    yield from (place for place, several in enumerate(differs) if several)


def _groups(rows: pd.DataFrame, by: list[str]) -> pd.Series:
    numbers: pd.Series = rows.groupby(by, dropna=False, sort=False).ngroup()
    return numbers


def _value(value: Any) -> str:
    if pd.isna(value):
        return "null"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a whole number beside an unknown one
    return value if isinstance(value, str) else json.dumps(value)
