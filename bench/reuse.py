"""Which earlier rows stand in for a case, so that a sweep goes on where it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Needed:
    """What a row must have been measured with to stand in for a new measurement."""

    case_id: str
    environment_id: str
    compile_cache: str
    budget_rank: int


COLUMNS = ["case_id", "environment_id", "compile_cache", "budget_rank", "status", "run_id"]


class Earlier:
    """The usable rows of a study, read once."""

    def __init__(self, runs: Path) -> None:
        self._rows = [row for path in sorted(runs.glob("[!.]*.parquet")) for row in _usable(path)]

    def run_id(self, needed: Needed) -> str | None:
        """The newest row of the same work, environment and at least the same budget, or None."""
        fitting = [
            str(row["run_id"])
            for row in self._rows
            if (row["case_id"], row["environment_id"], row["compile_cache"])
            == (needed.case_id, needed.environment_id, needed.compile_cache)
            and row["budget_rank"] >= needed.budget_rank
        ]
        return max(fitting, default=None)  # run ids begin with the time


def _usable(path: Path) -> list[dict[str, Any]]:
    """The file's row if it is ours and ok; what cannot be read is measured again."""
    try:
        rows: list[dict[str, Any]] = pq.ParquetFile(path).read(columns=COLUMNS).to_pylist()
    except (pa.ArrowException, OSError):
        return []
    return [row for row in rows if _is_ours(row) and row["status"] == "ok"]


def _is_ours(row: dict[str, Any]) -> bool:
    """Whether the row has the columns, and in them what we write there."""
    return row.keys() >= set(COLUMNS) and all(
        isinstance(row[name], int if name == "budget_rank" else str) for name in COLUMNS
    )
