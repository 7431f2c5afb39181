"""Describes where and when a study was measured."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

import pandas as pd

from modescope.analysis.derive.select import STEP
from modescope.analysis.format import numbers, phrases
from modescope.analysis.report.study import Study
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.environment import Environment

MOST_PLACES = 3  # named on one line; more are counted
MOST_NAMES = 4  # of models or machines in the title; more are counted
MOST_VALUES = 8  # of a property within an environment, such as the host
_VARIES = "load_1min"  # changes from run to run; rows remain comparable
_OF_MODEL = "model_source_id"  # differs between models, in one environment too


def places(study: Study) -> str:
    """Names the machines and torch versions of a study: `AMD EPYC, 1 thread, torch 2.13.0+cpu`."""
    named = [*phrases.PLACE, "torch_version"]
    rows = as_rows(study.rows[named].drop_duplicates())
    texts = dict.fromkeys(
        f"{study.place(row)}, torch {row['torch_version']}" if row["torch_version"]
        else study.place(row)
        for row in rows
    )  # fmt: skip
    if len(texts) > MOST_PLACES:
        return f"{len(texts)} places and versions of torch"
    return "; ".join(texts)


def title(study: Study) -> str:
    """Says what a report is on: `Which mode? mlp, transformer · AMD EPYC · 28 Nov 2026`."""
    models = list(dict.fromkeys(study.rows["model"]))
    rows = as_rows(study.rows[[*phrases.PLACE]].drop_duplicates())
    machines = list(dict.fromkeys(phrases.device(row) for row in rows))
    last = datetime.fromisoformat(study.rows["started_at"].max())
    named = (_few(models, "models"), _few(machines, "machines"), f"{last.day} {last:%b %Y}")
    return f"Which mode? {' · '.join(named)}"


def _few(names: list[str], what: str) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} {what}"


def period(rows: pd.DataFrame) -> str:
    """The start of the first run and of the last run: `2026-11-20 10:33 to 10:36 UTC`."""
    first, last = (datetime.fromisoformat(rows["started_at"].agg(end)) for end in ("min", "max"))
    start, end = f"{first:%Y-%m-%d %H:%M}", f"{last:%Y-%m-%d %H:%M}"
    if start == end:
        return f"{start} UTC"
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} UTC"


def environments(rows: pd.DataFrame) -> dict[str, Any]:
    """Returns the template variables on environments: `letters`, `facts` and a `sentence`.

    A letter names an environment. A fact is a field of Environment: its name, its description, a
    value per letter, and whether the values differ.
    """
    letters = sorted(rows["environment"].unique())
    facts = list[dict[str, Any]]()
    for field in fields(Environment):
        name, column = field.name, rows[field.name]
        values = [_text(name, column[rows["environment"] == letter]) for letter in letters]
        if any(value != numbers.UNKNOWN for value in values):
            differs = len(set(values)) > 1 or column.dropna().nunique() > 1
            if name == _OF_MODEL:
                counts = rows.groupby(["model", *STEP], dropna=False)[name].nunique()
                differs = bool((counts > 1).any())
            facts.append(
                {
                    "name": name,
                    "doc": field.metadata["doc"],
                    "values": values,
                    "differs": differs and name != _VARIES,
                }
            )
    differing = ", ".join(fact["name"] for fact in facts if fact["differs"])
    return {"letters": letters, "facts": facts, "sentence": _sentence(letters, differing)}


def _text(name: str, values: pd.Series) -> str:
    known = list(dict.fromkeys(values.dropna()))
    if name == _VARIES and len(known) > 1:
        return f"{min(known):.2f} to {max(known):.2f}"
    texts = [_value(name, value) for value in known[:MOST_VALUES]]
    more = [f"{len(known) - MOST_VALUES} more"] if len(known) > MOST_VALUES else []
    return " / ".join([*texts, *more]) or numbers.UNKNOWN


def _value(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value / 2**30:.1f} GiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sentence(letters: list[str], differing: str) -> str:
    if len(letters) > 1:
        return (
            f"Rows come from {len(letters)} environments ({', '.join(letters)}), which differ in "
            f"{differing or 'what the environment id covers'}; rows of different environments are "
            "never ranked against each other."
        )
    if differing:
        return f"Rows differ in {differing}."
    return "All rows were measured in one environment."
