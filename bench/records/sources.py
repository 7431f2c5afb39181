"""Where a study keeps its runs: one file each in runs/, and many in each of the parts in compact/.

`analysis.compact` writes a part, and removes the files of its runs once it is published. A run may
therefore be in a file and in a part, or in two parts: readers count it once, by its run_id. They
list runs/ before compact/, because a file that disappears in between is in a part by then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

RUNS, COMPACT = "runs", "compact"

CONFIRMATIONS = "confirmations"
"""Folder with the rows of processes that measured a run's case once more; see
`bench.sweep.confirming`. They are in no table: a row's figures are those of its own process."""

MOST_ATTEMPTS = 10
"""Attempts at reading parts that a compaction replaces meanwhile; the second nearly always does."""

Content = TypeVar("Content")


def parts(study: Path) -> list[Path]:
    """The parts of a study by name, except dot-files, which are being written.

    The folder is listed until nothing changes: a merge of parts adds one before it removes others,
    and a listing in between could miss both.
    """
    names: list[Path] | None = None
    for _ in range(MOST_ATTEMPTS):
        before, names = names, sorted((study / COMPACT).glob("[!.]*.parquet"))
        if before == names:
            break
    return names or []


def each_part(study: Path, read: Callable[[Path], Content]) -> list[Content]:
    """`read` for each part of a study. Starts anew where a part was replaced in the meantime.

    `read` raises FileNotFoundError if its part is gone, and handles other errors itself.
    """
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            return [read(part) for part in parts(study)]
        except FileNotFoundError:
            continue
    return [read(part) for part in parts(study)]


def exists(study: Path, run_id: str) -> bool:
    """Whether a study has a run, in a file or in a part; unreadable parts are left out."""
    if (study / RUNS / f"{run_id}.parquet").exists():
        return True

    def holds(part: Path) -> bool:
        try:
            found = pq.read_table(part, columns=["run_id"], filters=[("run_id", "==", run_id)])
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError):
            return False
        return bool(found.num_rows)

    return any(each_part(study, holds))
