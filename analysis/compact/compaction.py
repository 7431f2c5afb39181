"""Compacts a study: runs/ into parts, and small parts into larger ones.

Whatever is removed was published elsewhere before, and is on the disk. So a kill at any moment, a
second compaction and a sweep beside it lose nothing; at worst a run is there twice, which readers
count once and the next compaction clears.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from modescope.analysis.compact import lock, loose, small_parts
from modescope.analysis.compact.loose import Loose
from modescope.analysis.compact.part_file import SORTED_BY, sorted_places
from modescope.analysis.load import parts
from modescope.analysis.load.listing import listing
from modescope.analysis.load.merge import FILE, copies
from modescope.analysis.load.parallel import progress
from modescope.analysis.load.study import loose_runs
from modescope.bench.records import leftovers, sources
from modescope.bench.records.sources import COMPACT, RUNS


@dataclass
class Outcome:
    """What a compaction did."""

    runs: int = 0  # written into parts
    removed: int = 0  # files whose run was in a part before
    merged: int = 0  # parts that were joined to others
    parts: int = 0  # there are now
    left: dict[str, str] = field(default_factory=dict)  # file -> why it stays


def compact(folder: Path, on_wait: Callable[[], None] = lambda: None) -> Outcome:
    """Compacts a study, after another compaction of it has ended.

    Raises UsageError if there is no such study, OSError if parts cannot be written.
    """
    listing(folder)
    done = Outcome()
    with lock.alone(folder / COMPACT, on_wait) as is_alone:
        leftovers.clear(folder / COMPACT)
        known = _known(folder, done)
        _write(folder, known, done)
        done.merged = small_parts.merge(folder / COMPACT, is_alone)
    done.parts = len(sources.parts(folder))
    return done


def _known(folder: Path, done: Outcome) -> dict[Path, set[str]]:
    """The runs in each part; an unreadable part stays, and so do the files of its runs."""
    known = {}
    for path in sources.parts(folder):
        try:
            known[path] = small_parts.run_ids(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            done.left[f"{COMPACT}/{path.name}"] = parts.why_not(error)
    return known


def _write(folder: Path, known: dict[Path, set[str]], done: Outcome) -> None:
    runs = folder / RUNS
    existing = listing(folder).runs
    table, left = loose_runs(folder, existing)
    names, ids = table[FILE].to_pylist(), table["run_id"].to_pylist()
    inside = set().union(*known.values())
    repeated = copies(zip(names, ids, strict=True))
    there = {n: r for n, r in zip(names, ids, strict=True) if r in inside}
    listed = {one.name: one for one in existing}
    order = sorted_places(table.select(_sorting(table)).to_pandas())
    todo = [
        Loose(listed[names[place]], ids[place], table.slice(place, 1))
        for place in order
        if names[place] not in there and names[place] not in repeated
    ]
    with progress(len(todo), "compacting") as bar:
        while todo:
            written = loose.into_part(folder / COMPACT, runs, todo)
            if written.path is not None:
                known[written.path] = {one.run_id for one in written.inside}
                loose.remove(runs, [one.file for one in written.inside])
            done.runs += len(written.inside)
            left |= written.failed
            bar.update(len(written.inside) + len(written.failed))
            todo = written.later
    there |= {name: run_id for name, run_id in zip(names, ids, strict=True) if name in repeated}
    same, differing = loose.same_as_in_parts(runs, there, [*known]) if there else (set(), set())
    loose.remove(runs, [listed[name] for name in same])
    done.removed = len(same)
    done.left |= left | {
        name: f"differs from the run {there[name]} in {COMPACT}/" for name in differing
    }


def _sorting(table: pa.Table) -> list[str]:
    return [name for name in SORTED_BY if name in table.column_names]
