"""Where and when a study was measured: devices, their ceilings, environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import pandas as pd

from modescope.analysis.derive.select import STEP
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.study import Study
from modescope.bench.records.environment import Environment

MOST_PLACES = 3  # named on one line; more are counted
MOST_VALUES = 8  # of a property within an environment, such as the host
_VARIES = "load_1min"  # changes from run to run; rows remain comparable
_OF_MODEL = "model_source_id"  # differs between models, in one environment too


def places(study: Study) -> str:
    """`AMD EPYC, 1 thread, torch 2.13.0+cpu`: where the rows were measured."""
    named = [*phrases.PLACE, "torch_version"]
    rows = phrases.as_rows(study.rows[named].drop_duplicates())
    texts = dict.fromkeys(
        f"{study.place(row)}, torch {row['torch_version']}" if row["torch_version"]
        else study.place(row)
        for row in rows
    )  # fmt: skip
    if len(texts) > MOST_PLACES:
        return f"{len(texts)} places and versions of torch"
    return "; ".join(texts)


def period(rows: pd.DataFrame) -> str:
    """`2026-11-20 10:33 to 10:36 UTC`: start of the first and of the last row."""
    first, last = (datetime.fromisoformat(rows["started_at"].agg(end)) for end in ("min", "max"))
    start, end = f"{first:%Y-%m-%d %H:%M}", f"{last:%Y-%m-%d %H:%M}"
    if start == end:
        return f"{start} UTC"
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} UTC"


def ceilings(study: Study) -> str:
    """`Measured ceilings: matrix products 73 GFLOP/s in fp32; memory 29 to 94 GB/s`.

    Of each place, where there are several; empty where nothing was measured, or of too many places.
    Memory rates are those of transfers as large as the calls, which caches make differ.
    """
    named = [*phrases.PLACE, "dtype", "ceiling_flops_per_s", "ceiling_bytes_per_s"]
    rows = phrases.as_rows(study.rows[named])
    places = phrases.grouped((study.place(row), row) for row in rows)
    texts = {place: text for place, members in places.items() if (text := _rates(members))}
    if not texts or len(places) > MOST_PLACES:
        return ""
    if len(places) == 1:
        return f"Measured ceilings: {texts.popitem()[1]}"
    return "Measured ceilings: " + ". ".join(f"{place}: {text}" for place, text in texts.items())


def _rates(rows: Sequence[Row]) -> str:
    computing = phrases.grouped(
        (row["dtype"], row["ceiling_flops_per_s"]) for row in rows if row["ceiling_flops_per_s"]
    )
    products = [
        f"{_span(rates, 'FLOP/s')} in {dtype}" for dtype, rates in sorted(computing.items())
    ]
    texts = [f"matrix products {', '.join(products)}"] if products else []
    moving = [row["ceiling_bytes_per_s"] for row in rows if row["ceiling_bytes_per_s"]]
    texts += [f"memory {_span(moving, 'B/s')}"] if moving else []
    return "; ".join(texts)


def _span(rates: Sequence[float], unit: str) -> str:
    """`104 to 150 GB/s`; the unit of the lower end only where it differs."""
    low, high = (numbers.rate(end, unit) for end in (min(rates), max(rates)))
    value, _, its_unit = low.partition(" ")
    shown = value if high.endswith(f" {its_unit}") else low
    return low if low == high else f"{shown} to {high}"


def environments(rows: pd.DataFrame) -> dict[str, Any]:
    """`letters`; `facts` (name, doc, a value per letter, whether they differ); `sentence`."""
    letters = sorted(rows["environment"].unique())
    facts = []
    for field in fields(Environment):
        values = [
            _values(field.name, rows.loc[rows["environment"] == letter, field.name])
            for letter in letters
        ]
        if any(value != numbers.UNKNOWN for value in values):
            differs = _differs(rows, field.name, values)
            fact = {"name": field.name, "doc": field.metadata["doc"]}
            facts.append({**fact, "values": values, "differs": differs})
    differing = [fact["name"] for fact in facts if fact["differs"]]
    return {"letters": letters, "facts": facts, "sentence": _sentence(rows, letters, differing)}


def _differs(rows: pd.DataFrame, name: str, by_letter: list[str]) -> bool:
    """Whether comparable rows differ in the column."""
    if name == _OF_MODEL:
        sources = rows.groupby(["model", *STEP], dropna=False)[name].nunique()
        return bool((sources > 1).any())
    several = len(set(by_letter)) > 1 or rows[name].dropna().nunique() > 1
    return several and name != _VARIES


def _values(name: str, values: pd.Series) -> str:
    known = list(dict.fromkeys(values.dropna()))
    if not known:
        return numbers.UNKNOWN
    if name == _VARIES:
        low, high = min(known), max(known)
        return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    named = [_value(name, value) for value in known[:MOST_VALUES]]
    more = len(known) - len(named)
    return " / ".join([*named, *([f"{more} more"] if more else [])])


def _value(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value / 2**30:.1f} GiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sentence(rows: pd.DataFrame, letters: list[str], differing: list[str]) -> str:
    named = ", ".join(differing)
    if len(letters) > 1:
        return (
            f"Rows come from {len(letters)} environments ({', '.join(letters)}), which differ in "
            f"{named or 'what the environment id covers'}; rows of different environments are "
            "never ranked against each other."
        )
    if differing:
        return f"Rows differ in {named}."
    device, torch = (_values(name, rows[name]) for name in ("device_name", "torch_version"))
    return f"All rows were measured in one environment: {device}, torch {torch}."
