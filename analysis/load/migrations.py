"""Migrates runs of older schema versions to the current one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from modescope.analysis.load.first_schema import from_first, with_value
from modescope.analysis.load.second_schema import from_second
from modescope.bench.records.results import SCHEMA_VERSION

_VERSION = "schema_version"

Migration = Callable[[pa.Table], pa.Table]

MIGRATIONS: dict[int, Migration] = {1: from_first, 2: from_second}
"""Schema version -> the function that migrates a row to the next version. An added column needs no
new version: it is null in older rows. A change of a column's name, unit or meaning does."""


def migrated(
    table: pa.Table, version: int, steps: Mapping[int, Migration] = MIGRATIONS
) -> pa.Table:
    """The row of a file of schema `version`, migrated to the current version.

    Raises ValueError, with the reason as a clause, if that version is not supported.
    """
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"has schema version {version} of a newer modescope; this one reads versions up to "
            f"{SCHEMA_VERSION}"
        )
    for older in range(version, SCHEMA_VERSION):
        if older not in steps:
            raise ValueError(
                f"has schema version {version}, which is no longer read; measure it again, or "
                "read it with the modescope that wrote it"
            )
        table = steps[older](table)
        table = with_value(table, _VERSION, older + 1)
    return table
