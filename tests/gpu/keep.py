"""Makes the folder small enough to be kept: `python -m tests.gpu.keep FOLDER`.

Rows are joined; logs, reports, snapshots and all traces but two are removed.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

MOST_BYTES = 8 * 2**20
TRACES = 2
REMOVED_FOLDERS = ("logs", "report", "__pycache__")


def prune(folder: Path) -> None:
    """Removes what is not kept. Rows are joined where pyarrow is there."""
    for name in REMOVED_FOLDERS:
        for each in folder.rglob(name):
            shutil.rmtree(each, ignore_errors=True)
    traces = [each for each in folder.rglob("traces/*") if each.is_file()]
    kept = sorted(
        (each for each in traces if each.name.endswith(".json.gz")), key=lambda each: str(each)
    )[:TRACES]
    for each in traces:
        if each not in kept:
            each.unlink(missing_ok=True)
    _join_rows(folder)
    if size_bytes(folder) > MOST_BYTES:
        for each in kept:
            each.unlink(missing_ok=True)


def _join_rows(folder: Path) -> None:
    try:
        from modescope.bench.records import rows
    except ImportError:  # pyarrow is not there yet
        return
    for each in folder.rglob(rows.ROWS):
        rows.join(each)


def size_bytes(folder: Path) -> int:
    """The size of all files in the folder."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def pack(folder: Path, out: Path) -> Path:
    """Packs the folder into one archive in `out`, which is complete whenever it is there."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{folder.name}.tar.gz"
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w:gz") as archive:
        archive.add(folder, arcname=folder.name)
    partial.replace(path)
    return path


if __name__ == "__main__":
    prune(Path(sys.argv[1]))
