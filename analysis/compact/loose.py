"""Writes the files of single runs into parts, and removes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.analysis.compact.part_file import GROUP_ROWS, part
from modescope.analysis.load import cache, files, parts
from modescope.analysis.load.listing import RunFile
from modescope.analysis.load.remote import first_line

VERSION = b"modescope.schema_version"


@dataclass(frozen=True)
class Loose:
    """A file of runs/ that is to be written into a part."""

    file: RunFile
    run_id: str
    statistics: pa.Table  # of this one run


@dataclass
class Written:
    """One part, the files that are in it, and those that are left for others."""

    path: Path | None = None
    inside: list[Loose] = field(default_factory=list)
    later: list[Loose] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # file -> why it is in no part


def into_part(folder: Path, runs: Path, todo: Sequence[Loose]) -> Written:
    """Writes the first files of `todo` that have one schema and version into a part of `folder`."""
    done = Written()
    first = next(_readable(runs, todo[:1], done), None)
    if first is None:
        done.later += todo[1:]
        return done
    schema, footer = first[1].schema.remove_metadata(), _footer(first[1])
    whole = pa.schema([*schema, *parts.STATISTICS])
    with part(folder, whole, footer) as (path, add):
        for start in range(0, len(todo), GROUP_ROWS):
            chosen, of_schema = todo[start : start + GROUP_ROWS], []
            for one, table in _readable(runs, chosen, done):
                alike = table.schema.remove_metadata() == schema and _footer(table) == footer
                if alike and len(done.inside) < parts.MOST_ROWS:
                    done.inside.append(one)
                    of_schema.append((one, table))
                else:
                    done.later.append(one)
            if of_schema:
                add(_joined(of_schema, whole))
            if len(done.inside) == parts.MOST_ROWS:
                done.later += todo[start + GROUP_ROWS :]
                break
        done.path = path
    return done


def _readable(
    runs: Path, chosen: Sequence[Loose], done: Written
) -> Iterator[tuple[Loose, pa.Table]]:
    """The tables of these files as they were written; what is no run any more fails."""
    for one in chosen:
        try:
            table = files.parsed(runs / one.file.name)
        except (ValueError, pa.ArrowException) as error:
            done.failed[one.file.name] = first_line(error)
            continue
        ours = [name for name in table.column_names if name in parts.STATISTICS.names]
        if ours or table.num_rows != 1 or table["run_id"][0].as_py() != one.run_id:
            done.failed[one.file.name] = (
                f"has unknown columns {', '.join(ours)}" if ours else "changed"
            )
            continue
        yield one, table


def _joined(rows: Sequence[tuple[Loose, pa.Table]], schema: pa.Schema) -> pa.Table:
    """Rows of one schema with their statistics."""
    stored = pa.concat_tables([table.replace_schema_metadata() for _, table in rows])
    statistics = pa.concat_tables([one.statistics for one, _ in rows])
    columns = [*stored.columns, *statistics.select(parts.STATISTICS.names).columns]
    return pa.table(columns, schema=schema).combine_chunks()


def _footer(table: pa.Table) -> dict[bytes, bytes]:
    version = str(table["schema_version"][0].as_py()).encode()
    return {VERSION: version, parts.READER: cache.reader().encode()}


def remove(runs: Path, listed: Sequence[RunFile]) -> None:
    """Removes files that have not changed since they were listed."""
    for one in listed:
        path = runs / one.name
        try:
            now = path.stat()
        except FileNotFoundError:
            continue  # another compaction did
        if (now.st_size, now.st_mtime_ns) == (one.size, one.mtime_ns):
            path.unlink(missing_ok=True)


def same_as_in_parts(
    runs: Path, named: Mapping[str, str], paths: Sequence[Path]
) -> tuple[set[str], set[str]]:
    """Of files (name -> run_id): those whose run is in a part as it is here, and all others.

    Row groups that cannot be read have no equal run.
    """
    wanted: dict[str, list[str]] = {}
    for name, run_id in named.items():
        wanted.setdefault(run_id, []).append(name)
    same: set[str] = set()
    for path in paths:
        with suppress(OSError, ValueError, pa.ArrowException), parts.opened(path) as file:
            for group in range(file.num_row_groups):
                same |= _same(runs, wanted, file, group)
    return same, {*named} - same


def _same(
    runs: Path, wanted: Mapping[str, Sequence[str]], file: pq.ParquetFile, group: int
) -> set[str]:
    """Those of the files `wanted` (run_id -> names) that are equal to a row of this row group."""
    ids = file.read_row_group(group, columns=["run_id"])["run_id"].to_pylist()
    places = [place for place, run_id in enumerate(ids) if run_id in wanted]
    if not places:
        return set()
    rows = file.read_row_group(group, use_threads=False)
    return {
        name
        for place in places
        for name in wanted[ids[place]]
        if _is_same(runs / name, rows.slice(place, 1))
    }


def _is_same(path: Path, row: pa.Table) -> bool:
    """Whether a file holds this row of a part."""
    try:
        table = files.parsed(path)
    except (ValueError, pa.ArrowException):
        return False
    held = row.drop_columns([n for n in row.column_names if n in parts.STATISTICS.names])
    if table.schema.remove_metadata() != held.schema.remove_metadata():
        return False
    return bool(table.equals(held)) or repr(table.to_pylist()) == repr(held.to_pylist())  # NaN
