"""Where tools beside run.py ran, and what they found: a page and rows, there once complete."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import environment, leftovers, releases, store
from bench.records import Processor, place


@dataclass(frozen=True, kw_only=True)
class Surroundings(Processor):
    """What every row of one run of a tool shares."""

    started_at: str  # ISO 8601, UTC
    device: str  # cpu | cuda | cuda:<index>
    device_name: str | None
    threads: int
    power_limit_w: float | None
    torch_version: str | None
    python_version: str | None
    git_commit: str | None
    load_1min: float  # before the start
    command: str


def surroundings(device: str, threads: int, program: str, words: Sequence[str]) -> Surroundings:
    """Reads them; `device` may be auto. Raises UsageError where there is no such device."""
    load_1min = os.getloadavg()[0]
    host = environment.read(lambda phase, keep=None: None, device)
    around = host.environment
    return Surroundings(
        **{field.name: getattr(around, field.name) for field in fields(Processor)},
        started_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        device=host.device.type if device == "auto" else device,
        device_name=around.device_name,
        threads=threads,
        power_limit_w=around.power_limit_w,
        torch_version=around.torch_version,
        python_version=around.python_version,
        git_commit=around.git_commit,
        load_1min=load_1min,
        command=f"{program} {shlex.join(words)}".strip(),
    )


def heading(around: Surroundings, *own: str) -> list[str]:
    """Where, when and how: what has to be known to read a table; `own` are lines of the tool."""
    where = place(around, around.device_name, around.threads)
    if around.power_limit_w is not None:
        where += f", power limit {around.power_limit_w:g} W"
    return [
        f"{where}, torch {around.torch_version}, Python {around.python_version}",
        *filter(None, [releases.warning(around.torch_version)]),
        f"{around.started_at[:16]}Z, load average over the minute before: {around.load_1min:.2f}",
        *own,
        f"`{around.command}`",
    ]


def publish(
    folder: Path,
    around: Surroundings,
    page: str,
    rows: Mapping[type, Sequence[Any]],
    *facts: Any,
) -> tuple[Path, Path]:
    """Writes the page (Markdown) and the rows (Parquet), named after the start.

    `rows` are frozen records by their class. Columns are the fields of all the classes, whether
    there are rows of them or not, null where a row is of another one; then those of `facts`, frozen
    records too, and of `around`, alike in every row. Each file appears once it is complete. Raises
    OSError where they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = around.started_at.replace("-", "").replace(":", "")
    table = _table(rows, [*facts, around])
    return (
        whole(folder / f"{name}.md", lambda path: path.write_text(page, encoding="utf-8")),
        whole(
            folder / f"{name}.parquet", lambda path: pq.write_table(table, path, compression="zstd")
        ),
    )


def _table(rows: Mapping[type, Sequence[Any]], shared: Sequence[Any]) -> pa.Table:
    own = pa.unify_schemas([store.schema_of(kind) for kind in rows])
    schema = pa.schema([*own, *store.schema_of(*map(type, shared))])
    alike = {name: value for each in shared for name, value in asdict(each).items()}
    records = [asdict(row) | alike for of_a_kind in rows.values() for row in of_a_kind]
    return pa.Table.from_pylist(records, schema=schema)


def whole(path: Path, write_to: Callable[[Path], object]) -> Path:
    """Has `write_to` write the file, which appears as `path` once it is complete."""
    partial = leftovers.partial(path)
    try:
        write_to(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
