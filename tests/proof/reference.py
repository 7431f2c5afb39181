"""What is kept of a proof, for results/reference/: `python -m tests.proof.reference FOLDER`.

Fills FOLDER/reference with the rows of each study, the pages of the tools, and a few small traces.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

ROWS_MAX_BYTES = 5 * 10**6
TRACE_MAX_BYTES = 10**6
TRACED = ("cuda-graph", "reduce-overhead", "eager")
"""Modes whose traces tell most, one trace of each."""

STUDIES = ("main", "dispatch", "fusion", "training", "memory")
"""In the order in which they are kept, as long as there is room."""

TOOLS = ("facts", "selfcheck", "peers", "claims")


def rows(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Files of rows, and where each is kept; tools first, as they are small."""
    for tool in TOOLS:
        for file in sorted((folder / tool).glob("*.parquet")):
            yield file, Path(tool) / file.name
    for study in STUDIES:
        below = Path() if study == "main" else Path(study)
        for file in sorted((folder / study / "runs").glob("*.parquet")):
            yield file, below / "runs" / file.name


def traces(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The smallest trace of each mode that is worth one, and its place in the study."""
    stored = [
        pq.read_table(file, columns=["mode", "trace"]).to_pylist()[0]
        for file in sorted((folder / "main" / "runs").glob("*.parquet"))
    ]
    for mode in TRACED:
        names = [row["trace"] for row in stored if row["mode"] == mode and row["trace"]]
        files = [file for each in names if (file := folder / "main" / "traces" / each).is_file()]
        small = [file for file in files if file.stat().st_size <= TRACE_MAX_BYTES]
        if small:
            smallest = min(small, key=lambda file: (file.stat().st_size, file.name))
            yield smallest, Path("traces") / smallest.name


def keep(folder: Path) -> list[str]:
    """Fills FOLDER/reference anew; returns a line for each study of which rows found no room."""
    reference = folder / "reference"
    shutil.rmtree(reference, ignore_errors=True)
    left_out: dict[str, int] = {}
    used = 0
    for source, place in rows(folder):
        size = source.stat().st_size
        if used + size > ROWS_MAX_BYTES:
            name = str(place.parent)
            left_out[name] = left_out.get(name, 0) + 1
            continue
        used += size
        _copy(source, reference / place)
    for source, place in traces(folder):
        _copy(source, reference / place)
    for tool in TOOLS:
        for page in (folder / tool).glob("*.md"):
            _copy(page, reference / tool / page.name)
    if (folder / "ceilings.json").is_file():
        _copy(folder / "ceilings.json", reference / "ceilings.json")
    print(f"{reference}: {used / 1e6:.1f} MB of rows")
    return [f"left out of {name}: {count} files of rows" for name, count in left_out.items()]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def name(folder: Path) -> str | None:
    """The GPU's name as a folder's; None without rows."""
    for file in (folder / "main" / "runs").glob("*.parquet"):
        text = str(pq.read_table(file, columns=["device_name"]).to_pylist()[0]["device_name"])
        return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 1 where there are no rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.reference", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(words).folder
    called = name(folder)
    if called is None:
        print(f"error: {folder / 'main'} has no rows", file=sys.stderr)
        return 1
    for each in keep(folder):
        print(each)
    print(f"to commit it: cp -r {folder}/reference results/reference/{called}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
