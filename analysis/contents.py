"""Can the values of a run be what modescope wrote? Asked before anything is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pyarrow as pa

from bench.records import PARTS

# Columns whose lists have a value for each paired round.
_PAIRED = ("latency_rounds_s", "baseline_latency_rounds_s", "case_ran_first")


def objection(table: pa.Table) -> str | None:
    """Why the one row of `table`, which has the columns of the schema, is no run; None if it is."""
    for check in _CHECKS:
        if found := check(table):
            return found
    return None


def _damaged(table: pa.Table) -> str | None:
    """Text that is not UTF-8, lists that end before they begin."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        return f"is damaged ({str(error).partition(chr(10))[0]})"
    return None


def _incomplete(table: pa.Table) -> str | None:
    empty = [name for name in _REQUIRED if table[name].null_count]
    return f"has no {', '.join(empty)}" if empty else None


def _unpaired(table: pa.Table) -> str | None:
    lists = [table[name][0].as_py() for name in _PAIRED]
    lengths = {len(values) for values in lists if values is not None}
    return "has rounds without a partner" if len(lengths) > 1 else None


def _undecodable(table: pa.Table) -> str | None:
    for name, is_right in _JSON.items():
        text = table[name][0].as_py()
        if text is not None and not _holds(is_right, text):
            return f"has a {name} that means nothing: {text[:40]!r}"
    return None


def _holds(is_right: Callable[[Any], bool], text: str) -> bool:
    try:
        return is_right(json.loads(text))
    except (ValueError, RecursionError):
        return False


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, dict) and all(type(size) is int for size in value.values())


def _are_heaviest(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and {"name", "count", "seconds"} <= one.keys() for one in value
    )


def _are_sites(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and {"place", "reason"} <= one.keys() for one in value
    )


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _required() -> Sequence[str]:
    """The columns that every run has: those that may not be None and have no default."""
    return [
        field.name
        for part in PARTS
        for field in fields(part)
        if field.default is MISSING and type(None) not in _members(get_type_hints(part)[field.name])
    ]


def _members(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__args__", ()) if not isinstance(hint, type) else (hint,)


_REQUIRED = tuple(_required())
_JSON: dict[str, Callable[[Any], bool]] = {
    "shape": _are_sizes,
    "variables": _is_mapping,
    "training": _is_mapping,
    "graph_break_reasons": _are_sites,
    "eager_functions": _are_names,
    "heaviest_kernels": _are_heaviest,
    "heaviest_ops": _are_heaviest,
}
_CHECKS = (_damaged, _incomplete, _unpaired, _undecodable)
