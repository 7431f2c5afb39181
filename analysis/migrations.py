"""Runs of older schema versions -> rows of the current one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from analysis import first_schema as first
from bench.records import SCHEMA_VERSION

_VERSION = "schema_version"

Step = Callable[[pa.Table], pa.Table]

MIGRATIONS: dict[int, Step] = {1: first.migrated}
"""Schema version -> what makes a row of the next one of its row. A column that was only added needs
no new version: where it is missing, it is null. One that changed its name, unit or meaning does."""


def migrated(table: pa.Table, version: int, steps: Mapping[int, Step] = MIGRATIONS) -> pa.Table:
    """The row of a file of schema `version` as one of the current version.

    Raises ValueError, with the reason in a clause, where there is no way from there to here.
    """
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"has schema version {version}, which a newer modescope wrote; this one reads up to "
            f"{SCHEMA_VERSION}"
        )
    for older in range(version, SCHEMA_VERSION):
        if older not in steps:
            raise ValueError(
                f"has schema version {version}, which is no longer read; measure it again, or "
                "read it with the modescope that wrote it"
            )
        table = steps[older](table)
        place = table.column_names.index(_VERSION)
        table = table.set_column(place, _VERSION, pa.array([older + 1]))
    return table
