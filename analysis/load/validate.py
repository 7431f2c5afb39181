"""Checks that the values of a run are valid before they are used."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pyarrow as pa

from modescope.bench.records.results import PARTS

# List columns with a value per paired round.
_PAIRED = ("latency_rounds_s", "baseline_latency_rounds_s", "case_ran_first", "pace_rounds_s")


def objection(table: pa.Table) -> str | None:
    """Why the one row of `table`, in the columns of the schema, is invalid; None if it is valid."""
    return next(filter(None, (check(table) for check in _CHECKS)), None)


def _damaged(table: pa.Table) -> str | None:
    """Invalid UTF-8 in text, invalid offsets of lists."""
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
    return "has unpaired rounds" if len(lengths) > 1 else None


def _undecodable(table: pa.Table) -> str | None:
    for name, is_right in _JSON.items():
        text = table[name][0].as_py()
        if text is not None and not _holds(is_right, text):
            return f"has an invalid {name}: {text[:40]!r}"
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


def _list_of(is_member: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_member, value))


def _mapping_with(*keys: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and {*keys} <= value.keys()


def _required() -> Sequence[str]:
    """The columns that every run has: not None and without a default."""
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
    "graph_break_reasons": _list_of(_mapping_with("place", "reason")),
    "eager_functions": _list_of(lambda value: isinstance(value, str)),
    "heaviest_kernels": _list_of(_mapping_with("name", "count", "seconds")),
    "heaviest_ops": _list_of(_mapping_with("name", "count", "seconds")),
}
_CHECKS = (_damaged, _incomplete, _unpaired, _undecodable)
