"""Which earlier rows stand in for a case, so that a sweep goes on where it stopped; if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.fingerprint import FINGERPRINT
from bench.records import SCHEMA_VERSION, Budget, Environment

COMPARED = FINGERPRINT | {"model_source_id": "the model's source"}
"""Columns in which an earlier row must be equal, and what a reader calls them."""

FINAL = ("ok", "skipped")
"""Statuses that measuring again would not change; others are tried again unless told otherwise."""

CHANGED = "["
"""In the name of a budget whose values were overridden: it is comparable to none but itself."""

COLUMNS = (
    "schema_version",
    "run_id",
    "case_id",
    "replicate",
    "status",
    "environment_id",
    "budget",
    "budget_rank",
    "budget_settings",
    "compile_cache",
    "profile",
    "memory",
    "max_error",
    "flags",
    *COMPARED,
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Needed:
    """What a row must have been measured with to stand in for a new measurement."""

    case_id: str
    replicate: int
    compile_cache: str
    budget: Budget
    environment: Environment
    retry: bool  # whether a case that failed is tried again
    profile: bool  # whether the profiler pass is asked for
    memory: bool  # whether the memory pass is
    max_error: float | None  # the error that the user accepts beyond the usual


@dataclass(frozen=True)
class Found:
    """The row that stands in; or None and why the newest one of the same case does not."""

    run_id: str | None
    why_not: str | None = None


class Earlier:
    """The rows of a study, read once."""

    def __init__(self, runs: Path) -> None:
        self.outdated = 0  # of an older schema, which are not looked at
        self._rows: dict[tuple[str, int], list[Row]] = {}
        for path in sorted(runs.glob("[!.]*.parquet")):
            rows = _readable(path)
            self.outdated += sum(row["schema_version"] < SCHEMA_VERSION for row in rows)
            for row in filter(_is_ours, rows):
                self._rows.setdefault((row["case_id"], row["replicate"]), []).append(row)

    def find(self, needed: Needed) -> Found:
        """The newest row that was measured as needed, if it ended well; it stands in only once."""
        rows = self._rows.get((needed.case_id, needed.replicate), [])
        newest_first = sorted(rows, key=lambda row: str(row["run_id"]), reverse=True)
        objections = [_objection(row, needed) for row in newest_first]
        if None not in objections:
            return Found(None, objections[0] if objections else None)
        row = newest_first[objections.index(None)]
        if row["status"] not in FINAL and needed.retry:
            return Found(None, f"ended {row['status']}")
        rows.remove(row)
        return Found(row["run_id"])


def _objection(row: Row, needed: Needed) -> str | None:
    """Why `row` was not measured as needed, in a few words, or None."""
    if row["environment_id"] is None:
        return "where it was measured is unknown"
    differing = [
        name
        for column, name in COMPARED.items()
        if row[column] != getattr(needed.environment, column)
    ]
    if differing or row["environment_id"] != needed.environment.environment_id:
        return f"{' and '.join(differing) or 'the environment'} changed"
    if row["budget_rank"] < needed.budget.rank:
        return f"only budget={row['budget']} so far"
    if row["budget"] != needed.budget.name and CHANGED in row["budget"] + needed.budget.name:
        return f"budget was {row['budget']}"
    if row["budget"] == needed.budget.name and row["budget_settings"] != needed.budget.settings:
        return f"what budget={row['budget']} means changed"
    if row["compile_cache"] != needed.compile_cache:
        return f"compile_cache was {row['compile_cache']}"
    if _ends_otherwise(row, needed.max_error):
        return f"max_error was {row['max_error'] or 'null'}"
    for name in ("profile", "memory"):
        if getattr(needed, name) and not row[name]:
            return f"measured with {name}=false"
    return None


def _ends_otherwise(row: Row, max_error: float | None) -> bool:
    """Whether the row might have ended otherwise with this `max_error`.

    More was accepted, so that it may be right by that alone; or less, and something was wrong.
    """
    before, now = row["max_error"] or 0.0, max_error or 0.0
    if row["status"] == "skipped" or before == now:
        return False
    was_wrong = row["status"] == "wrong_result" or "baseline_wrong" in (row["flags"] or ())
    return now < before or was_wrong


def _readable(path: Path) -> list[Row]:
    """The file's row, if it has a version; what cannot be read is measured again."""
    try:
        rows: list[Row] = pq.ParquetFile(path).read(columns=list(COLUMNS)).to_pylist()
    except (pa.ArrowException, OSError, ValueError):  # the last where a name is no text
        return []
    return [row for row in rows if isinstance(row.get("schema_version"), int)]


def _is_ours(row: Row) -> bool:
    """Whether the row has the columns of today, and in them what we write there."""
    numbers = ("budget_rank", "replicate")
    words = ("run_id", "case_id", "status", "budget", "compile_cache")
    return (
        row.keys() >= set(COLUMNS)
        and all(isinstance(row[name], int) for name in numbers)
        and all(isinstance(row[name], str) for name in words)
    )
