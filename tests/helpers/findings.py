"""Records and findings, which hold columns in groups, from single columns; and their rounds."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any

from modescope.bench.records.columns.timing import Rounds
from modescope.bench.records.results import Column, Findings, columns_of


def assemble(kind: Any, value: Callable[[Column], Any]) -> Any:
    """A record, or one of its parts or groups, with `value` of every column.

    A group that may be None is None if all its columns are.
    """
    own = {column.name: column for column in columns_of(kind) if issubclass(kind, column.group)}
    given = {}
    for name, hint in typing.get_type_hints(kind).items():
        if name in own:
            given[name] = value(own[name])
            continue
        group, *nothing = typing.get_args(hint) or (hint,)
        names = [column.name for column in columns_of(group)]
        made = assemble(group, value)
        is_none = nothing and all(getattr(made, each) is None for each in names)
        given[name] = None if is_none else made
    return kind(**given)


def with_defaults(kind: Any, columns: dict[str, Any]) -> Any:
    """A record or findings with these columns; all others have their default, or else None."""
    if unknown := columns.keys() - {column.name for column in columns_of(kind)}:
        raise TypeError(f"no such column: {', '.join(sorted(unknown))}")

    def value(column: Column) -> Any:
        default = column.group.__dataclass_fields__[column.name].default  # type: ignore[attr-defined]
        return columns.get(column.name, None if default is MISSING else default)

    return assemble(kind, value)


def rounds_of(findings: Findings) -> Rounds:
    """The rounds of a case that was timed."""
    assert findings.rounds is not None
    return findings.rounds
