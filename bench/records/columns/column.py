"""How a column is declared. Standard library only."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def column(doc: str, **default: Any) -> Any:
    """Returns a dataclass field for a column; `doc` is its text in results/README.md.

    `default` goes to `dataclasses.field`: the column's default value, if it has one.
    """
    return field(metadata={"doc": doc}, **default)


def nullable(doc: str) -> Any:
    """Returns a dataclass field for a column that is None (null) by default."""
    return column(doc, default=None)


def estimate_columns(name: str) -> tuple[str, str, str]:
    """Returns the columns of an estimate: its value (`name`) and its interval's low and high end.

    For `latency_s` these are `latency_s`, `latency_ci_low_s` and `latency_ci_high_s`.
    """
    unit = "_s" if name.endswith("_s") else ""
    stem = name.removesuffix(unit)
    return name, f"{stem}_ci_low{unit}", f"{stem}_ci_high{unit}"
