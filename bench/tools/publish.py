"""Writes the page and the rows of a tool's run, with the context of that run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records import files, parquet
from modescope.bench.records.environment import Processor, place
from modescope.bench.sweep import host
from modescope.bench.sweep.fingerprint import untested_warning


@dataclass(frozen=True, kw_only=True)
class RunContext(Processor):
    """The values shared by all rows of one run of a tool."""

    started_at: str  # ISO 8601, UTC
    device: str  # cpu | cuda | cuda:<index>
    device_name: str | None
    threads: int
    power_limit_w: float | None
    torch_version: str | None
    python_version: str | None
    git_commit: str | None
    load_1min: float  # load average over the minute before the start
    command: str


def run_context(device: str, threads: int, program: str, words: Sequence[str]) -> RunContext:
    """The context of this run; `device` may be auto. Raises UsageError for a missing device."""
    load_1min = os.getloadavg()[0]
    read = host.read(lambda phase, keep=None: None, device)
    facts = read.environment
    return RunContext(
        **{field.name: getattr(facts, field.name) for field in fields(Processor)},
        started_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        device=read.device.type if device == "auto" else device,
        device_name=facts.device_name,
        threads=threads,
        power_limit_w=facts.power_limit_w,
        torch_version=facts.torch_version,
        python_version=facts.python_version,
        git_commit=facts.git_commit,
        load_1min=load_1min,
        command=f"{program} {shlex.join(words)}".strip(),
    )


def heading(context: RunContext, *own: str) -> list[str]:
    """The lines above the tables: machine, time and command; `own` are lines of the tool."""
    where = place(context, context.device_name, context.threads)
    if context.power_limit_w is not None:
        where += f", power limit {context.power_limit_w:g} W"
    return [
        f"{where}, torch {context.torch_version}, Python {context.python_version}",
        *filter(None, [untested_warning(context.torch_version)]),
        f"{context.started_at[:16]}Z, load average of the minute before: {context.load_1min:.2f}",
        *own,
        f"`{context.command}`",
    ]


def publish(
    folder: Path, context: RunContext, page: str, rows: Mapping[type, Sequence[Any]], *facts: Any
) -> tuple[Path, Path]:
    """Writes the page (Markdown) and the rows (Parquet), named by the start time.

    `rows` are frozen records by class. Columns are the fields of all these classes, null in rows of
    another class, then the fields of the records `facts` and `context`, equal in every row. Files
    are written atomically. Raises OSError if they cannot be written.
    """
    name = context.started_at.replace("-", "").replace(":", "")
    table = _table(rows, [*facts, context])
    page_path, rows_path = folder / f"{name}.md", folder / f"{name}.parquet"
    with files.atomic_write(page_path, sync=True) as partial:
        partial.write_text(page, encoding="utf-8")
    with files.atomic_write(rows_path, sync=True) as partial:
        pq.write_table(table, partial, compression="zstd")
    return page_path, rows_path


def _table(rows: Mapping[type, Sequence[Any]], shared: Sequence[Any]) -> pa.Table:
    own = pa.unify_schemas([parquet.schema_of(kind) for kind in rows])
    schema = pa.schema([*own, *parquet.schema_of(*map(type, shared))])
    alike = {name: value for each in shared for name, value in asdict(each).items()}
    records = [asdict(row) | alike for of_a_kind in rows.values() for row in of_a_kind]
    return pa.Table.from_pylist(records, schema=schema)
